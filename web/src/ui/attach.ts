/** Files and photos for a message. */
import type { Attachment } from "../ahp/types";

const LARGEST = 6 << 20;
/** The longest side of a picture: more than models look at, less than phones take. */
const SIDE = 2048;

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

/** A picture that is not larger than it needs to be; also photos of kinds that models cannot read. */
async function shrink(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const readable = /^image\/(?:png|jpeg|gif|webp)$/.test(file.type);
  if (scale === 1 && readable && file.size < LARGEST / 4) return file;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const made = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/jpeg", 0.85));
  if (!made) throw new Error("Could not read the image.");
  return made;
}

export async function attach(file: File): Promise<Attachment> {
  const picture = file.type.startsWith("image/") && file.type !== "image/svg+xml";
  const blob = picture ? await shrink(file) : file;
  if (blob.size > LARGEST) throw new Error(`The file has ${(blob.size / (1 << 20)).toFixed(1)} MB; the limit is 6 MB.`);
  return {
    type: "embeddedResource",
    label: file.name || "picture",
    displayKind: picture ? "image" : "document",
    data: base64(new Uint8Array(await blob.arrayBuffer())),
    contentType: blob.type || "text/plain",
  };
}
