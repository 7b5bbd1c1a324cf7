import { defineConfig } from "vite";
import solid from "vite-plugin-solid";

// In development the page comes from Vite and the host from LODGE_HOST, so that both can change without a restart.
const host = process.env.LODGE_HOST ?? "http://127.0.0.1:7777";
const to = { target: host, changeOrigin: true, rewriteWsOrigin: true };

export default defineConfig({
  plugins: [solid()],
  base: "./",
  build: {
    target: ["chrome123", "safari17.5", "firefox125"],
    // The policy of the page forbids inline code and data: URLs for anything but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: true,
    reportCompressedSize: false,
    manifest: false,
    chunkSizeWarningLimit: 600,
  },
  server: {
    proxy: {
      "/ahp": { ...to, ws: true, rewrite: (path) => path.replace(/^\/ahp/, "/") },
      "/device": to,
      "/unpair": to,
    },
  },
});
