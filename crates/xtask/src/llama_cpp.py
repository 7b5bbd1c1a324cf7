"""llama.cpp's server with a model of a few kilobytes, which this writes first. Arguments: the model's file, the port, the answer.

The model is a chain: each token makes the next one certain. The end of every prompt begins the answer, whatever was asked."""

import sys
import time

import gguf
import numpy
import xllamacpp

path, port, answer = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(" ")
WIDTH = 32
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = [answer[0]] + ["\u2581" + word for word in answer[1:]]
TOKENS = ["<unk>", "<s>", "</s>"] + BYTES + WORDS
CHAIN = [TOKENS.index("<0x3A>")] + [TOKENS.index(word) for word in WORDS] + [TOKENS.index("</s>")]

writer = gguf.GGUFWriter(path, "llama")
writer.add_context_length(16384)
writer.add_embedding_length(WIDTH)
writer.add_block_count(1)
writer.add_feed_forward_length(WIDTH)
writer.add_head_count(4)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(len(TOKENS))
writer.add_tokenizer_model("llama")
writer.add_token_list([token.encode() for token in TOKENS])
writer.add_token_scores([0.0] * len(TOKENS))
writer.add_token_types([2, 3, 3] + [6] * len(BYTES) + [1] * len(WORDS))
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)
writer.add_chat_template("assistant:")


def tensor(name, *shape):
    return name, numpy.zeros(shape, numpy.float32)


tensors = dict(
    [tensor("token_embd.weight", len(TOKENS), WIDTH), tensor("output.weight", len(TOKENS), WIDTH)]
    + [tensor(f"blk.0.{name}.weight", WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    + [tensor(f"{name}.weight", WIDTH) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")]
)
for name, weights in tensors.items():
    if name.endswith("norm.weight"):
        weights[:] = 1
for at, (token, following) in enumerate(zip(CHAIN, CHAIN[1:])):
    tensors["token_embd.weight"][token][at] = 1
    tensors["output.weight"][following][at] = 20
for name, weights in tensors.items():
    writer.add_tensor(name, weights)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

parameters = xllamacpp.CommonParams()
parameters.model.path = path
parameters.hostnames = ["127.0.0.1"]
parameters.port = port
parameters.n_ctx = 16384
parameters.n_parallel = 1
parameters.warmup = False
server = xllamacpp.Server(parameters)
while True:
    time.sleep(60)
