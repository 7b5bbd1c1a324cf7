import type { JSX } from "solid-js";

/** Line icons, drawn on a grid of 20. */
function icon(path: string, filled = false) {
  return (props: JSX.SvgSVGAttributes<SVGSVGElement>) => (
    <svg
      viewBox="0 0 20 20"
      width="18"
      height="18"
      fill={filled ? "currentColor" : "none"}
      stroke={filled ? "none" : "currentColor"}
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      {...props}
    >
      <path d={path} />
    </svg>
  );
}

export const Back = icon("M12.5 4.5 7 10l5.5 5.5");
export const Forward = icon("M7.5 4.5 13 10l-5.5 5.5");
export const Down = icon("M5 7.5 10 12.5l5-5");
export const Plus = icon("M10 4v12M4 10h12");
export const Search = icon("M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM13.2 13.2 17 17");
export const Inbox = icon("M3 11.5 5.2 4.6A1.5 1.5 0 0 1 6.6 3.5h6.8a1.5 1.5 0 0 1 1.4 1.1L17 11.5V15a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 15v-3.5Zm0 0h4l1 2h4l1-2h4");
export const Chart = icon("M4 16.5V10M8 16.5V4M12 16.5V8M16 16.5v-4");
export const Clock = icon("M10 3.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM10 6.5V10l2.5 1.8");
export const Gear = icon("M10 7.4a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2ZM10 2.8v2M10 15.2v2M2.8 10h2M15.2 10h2M4.9 4.9l1.4 1.4M13.7 13.7l1.4 1.4M15.1 4.9l-1.4 1.4M6.3 13.7l-1.4 1.4");
export const Send = icon("M10 16V4.5M5 9.5l5-5 5 5");
export const Stop = icon("M4.5 5.7c0-.7.5-1.2 1.2-1.2h8.6c.7 0 1.2.5 1.2 1.2v8.6c0 .7-.5 1.2-1.2 1.2H5.7c-.7 0-1.2-.5-1.2-1.2V5.7Z", true);
export const Copy = icon("M7.5 7.5h7.3c.7 0 1.2.5 1.2 1.2v6.6c0 .7-.5 1.2-1.2 1.2H8.7c-.7 0-1.2-.5-1.2-1.2V7.5ZM12.5 7.5V4.7c0-.7-.5-1.2-1.2-1.2H5.2C4.5 3.5 4 4 4 4.7v6.1C4 11.5 4.5 12 5.2 12h2.3");
export const Check = icon("M4.5 10.5 8.3 14.3 15.5 6");
export const Cross = icon("M5.5 5.5l9 9M14.5 5.5l-9 9");
export const More = icon("M4.6 8.6a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8Zm5.4 0a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8Zm5.4 0a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8Z", true);
export const Clip = icon("M15.5 9.2 10 14.7a3.3 3.3 0 0 1-4.7-4.7l6-6a2.2 2.2 0 0 1 3.1 3.1l-6 6a1.1 1.1 0 0 1-1.5-1.6l5-5");
export const Fork = icon("M6 3.5v6M6 9.5c0 2 1.5 2.5 4 2.5s4 .5 4 2.5M14 9.5v-6M14 9.5c0 1.4-.8 2.1-2 2.4M4.3 5.2 6 3.5l1.7 1.7M12.3 5.2 14 3.5l1.7 1.7");
export const Rewind = icon("M4 8.5h7.5a4 4 0 0 1 0 8H8M7 5 3.5 8.5 7 12");
export const Edit = icon("M12.5 4.5 15.5 7.5 7.5 15.5 4 16l.5-3.5 8-8Z");
export const Trash = icon("M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10");
export const Pin = icon("M12 3.5 16.5 8l-2 .7-3 3-.5 3.3L5 9l3.3-.5 3-3L12 3.5ZM7.7 12.3 4 16");
export const Archive = icon("M3.5 4h13v3.5h-13V4ZM4.7 7.5V16h10.6V7.5M8.5 10.5h3");
export const Terminal = icon("M3.5 4.5h13v11h-13v-11ZM6 8l2.5 2L6 12M10.5 12.5H14");
export const Diff = icon("M10 3.5v7M6.5 7h7M6.5 15.5h7");
export const File = icon("M5.5 3.5h6l3.5 3.5v9.5h-9.5v-13ZM11.5 3.5V7H15");
export const Spark = icon("M10 3c.6 4 2.6 6.3 7 7-4.4.7-6.4 3-7 7-.6-4-2.6-6.3-7-7 4.4-.7 6.4-3 7-7Z");
export const Warn = icon("M10 3.8 17.2 16H2.8L10 3.8ZM10 8.5v3.2M10 14h.01");
export const Bot = icon("M5 7.5h10v8H5v-8ZM10 7.5v-3M8 11.2h.01M12 11.2h.01");
export const Tool = icon("M12.8 3.8a3.8 3.8 0 0 0-4 5l-5.3 5.3 2.4 2.4 5.3-5.3a3.8 3.8 0 0 0 5-4l-2.2 2.2-2.4-.6-.6-2.4 1.8-2.6Z");
export const Globe = icon("M10 3.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM3.5 10h13M10 3.5c2 2 2.7 4 2.7 6.5S12 14.5 10 16.5C8 14.5 7.3 12.5 7.3 10S8 5.5 10 3.5Z");
export const Question = icon("M7.5 7.5A2.5 2.5 0 1 1 10 10.2V12M10 14.8h.01");
export const Thought = icon("M6 13.5a4 4 0 1 1 .8-7.9 4.2 4.2 0 0 1 7.9 1.9 3 3 0 0 1-.7 6H6ZM5 16.5h.01");
export const Folder = icon("M3 5.5h5l1.5 2H17v8H3v-10Z");
export const Menu = icon("M3.5 6h13M3.5 10h13M3.5 14h13");
export const Lodge = icon("M3 16.5 10 4l7 12.5h-4.3L10 11l-2.7 5.5H3Z", true);
