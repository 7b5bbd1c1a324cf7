//! Canvases: panels that a client of a session provides, and that people see beside the conversation.

use serde_json::Value;

use crate::CanvasInfo;
use crate::macros::events;

events! {
    "Canvases";

    "session.canvas.registry_changed" SessionCanvasRegistryChanged ephemeral newer
        "The list of provided canvases changed." {
        canvases: Vec<CanvasInfo> = "All canvases that are provided now.",
    }

    "session.canvas.opened" SessionCanvasOpened ephemeral newer
        "A canvas was opened, or its provider is back." {
        instance_id: String = "Name of the open canvas, chosen by the client that opened it.",
        extension_id: String = "Who provides it.",
        extension_name? String = "Name of the provider for people.",
        canvas_id: String = "Which of the provider's canvases it is.",
        icon? String = "Path of a PNG on the host.",
        title? String = "Title for people.",
        status? String = "What the provider says of its state.",
        url? String = "Where it is shown.",
        input? Value = "What it was opened with.",
    }

    "session.canvas.unavailable" SessionCanvasUnavailable ephemeral newer
        "The provider of an open canvas disconnected. The canvas stays open in case it returns." {
        instance_id: String = "The open canvas.",
        extension_id: String = "Who provides it.",
        canvas_id: String = "Which of the provider's canvases it is.",
    }

    "session.canvas.closed" SessionCanvasClosed ephemeral newer
        "A canvas was closed." {
        instance_id: String = "The canvas.",
        extension_id: String = "Who provides it.",
        canvas_id: String = "Which of the provider's canvases it is.",
    }

    "session.canvas.recorded" SessionCanvasRecorded persisted newer
        "A canvas is open from now on, also after a restart." {
        instance_id: String = "Name of the open canvas.",
        extension_id: String = "Who provides it.",
        canvas_id: String = "Which of the provider's canvases it is.",
        title? String = "Title for people.",
        input? Value = "What it was opened with.",
    }

    "session.canvas.removed" SessionCanvasRemoved persisted newer
        "A canvas is no longer open." {
        instance_id: String = "The canvas.",
        extension_id: String = "Who provided it.",
        canvas_id: String = "Which of the provider's canvases it was.",
    }
}
