//! What is known about models from their names alone. A configuration takes precedence.

use crate::ModelInfo;

const EFFORTS: &[&str] = &["low", "medium", "high"];
const NO_EFFORTS: &[&str] = &[];

/// What models take as a prompt, by a prefix of their names, where that is less than their window has room for.
const PROMPTS: [(&str, u64); 1] = [("gpt-5", 272_000)];

/// Prefix of the name, context window, longest answer, images, efforts. The first that fits counts.
const KNOWN: [(&str, u64, u64, bool, &[&str]); 26] = [
    ("gpt-5", 400_000, 128_000, true, EFFORTS),
    ("gpt-4.1", 1_047_576, 32_768, true, NO_EFFORTS),
    ("gpt-4o", 128_000, 16_384, true, NO_EFFORTS),
    ("gpt-4-turbo", 128_000, 4_096, true, NO_EFFORTS),
    ("gpt-4-32k", 32_768, 4_096, false, NO_EFFORTS),
    ("gpt-4", 8_192, 4_096, false, NO_EFFORTS),
    ("gpt-3.5", 16_385, 4_096, false, NO_EFFORTS),
    ("gpt-oss", 131_072, 32_768, false, EFFORTS),
    ("o1-mini", 128_000, 65_536, false, NO_EFFORTS),
    ("o1", 200_000, 100_000, true, EFFORTS),
    ("o3", 200_000, 100_000, true, EFFORTS),
    ("o4", 200_000, 100_000, true, EFFORTS),
    ("claude-3-7", 200_000, 64_000, true, EFFORTS),
    ("claude-3.7", 200_000, 64_000, true, EFFORTS),
    ("claude-3", 200_000, 8_192, true, NO_EFFORTS),
    ("claude-opus-4-1", 200_000, 32_000, true, EFFORTS),
    ("claude-opus-4-2", 200_000, 32_000, true, EFFORTS),
    ("claude-opus-4.1", 200_000, 32_000, true, EFFORTS),
    ("claude", 200_000, 64_000, true, EFFORTS),
    ("gemini", 1_048_576, 65_536, true, EFFORTS),
    ("grok-4", 256_000, 64_000, true, NO_EFFORTS),
    ("deepseek", 128_000, 32_768, false, NO_EFFORTS),
    ("kimi-k2", 256_000, 32_768, false, NO_EFFORTS),
    ("llava", 32_768, 8_192, true, NO_EFFORTS),
    ("gemma3", 128_000, 8_192, true, NO_EFFORTS),
    ("qwen3-coder", 262_144, 65_536, false, NO_EFFORTS),
];

/// Whether the name says what the model can do.
pub(super) fn is_known(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<&'static (&'static str, u64, u64, bool, &'static [&'static str])> {
    let last = last_part(name);
    KNOWN.iter().find(|(prefix, ..)| last.starts_with(prefix))
}

fn last_part(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase()
}

/// A model of which nothing but the name is known. `name` is the one that its capabilities are looked up by.
pub(super) fn info(id: &str, name: &str, provider: &str) -> ModelInfo {
    let last = last_part(name);
    let (window, output, vision, efforts) = known(name).map_or(
        // A model that takes no images says so when it gets one; an image that is left out is missed by nobody.
        (128_000, 16_384, true, NO_EFFORTS),
        |(_, window, output, vision, efforts)| (*window, *output, *vision, *efforts),
    );
    ModelInfo {
        id: id.to_owned(),
        name: name.to_owned(),
        provider: provider.to_owned(),
        context_window: window,
        max_prompt_tokens: (PROMPTS.iter())
            .find(|(prefix, _)| last.starts_with(prefix))
            .map(|(_, most)| *most),
        max_output_tokens: output,
        vision: vision || last.contains("-vl") || last.contains("vision"),
        reasoning_efforts: efforts.iter().map(|effort| (*effort).to_owned()).collect(),
    }
}
