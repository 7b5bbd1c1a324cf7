//! Canvases.

use lodge_events::*;
use serde_json::json;

use super::text;

pub(super) fn canvases() -> Vec<Payload> {
    let (instance_id, extension_id, canvas_id) = ("c-1".to_owned(), "app".to_owned(), "counter".to_owned());
    vec![
        SessionCanvasRegistryChanged {
            canvases: vec![CanvasInfo {
                canvas_id: canvas_id.clone(),
                extension_id: extension_id.clone(),
                display_name: "Counter".into(),
                description: "Counts.".into(),
                input_schema: Some(json!({"type": "object"})),
                actions: Some(vec![CanvasActionInfo {
                    name: "increment".into(),
                    description: text("Counts one more."),
                    input_schema: Some(json!({"type": "object"})),
                }]),
                ..Default::default()
            }],
        }
        .into(),
        SessionCanvasOpened {
            instance_id: instance_id.clone(),
            extension_id: extension_id.clone(),
            canvas_id: canvas_id.clone(),
            title: text("Counter"),
            status: text("ready"),
            url: text("http://127.0.0.1:1/counter"),
            input: Some(json!({"start": 1})),
            ..Default::default()
        }
        .into(),
        SessionCanvasUnavailable {
            instance_id: instance_id.clone(),
            extension_id: extension_id.clone(),
            canvas_id: canvas_id.clone(),
        }
        .into(),
        SessionCanvasClosed {
            instance_id: instance_id.clone(),
            extension_id: extension_id.clone(),
            canvas_id: canvas_id.clone(),
        }
        .into(),
        SessionCanvasRecorded {
            instance_id: instance_id.clone(),
            extension_id: extension_id.clone(),
            canvas_id: canvas_id.clone(),
            title: text("Counter"),
            input: Some(json!({"start": 1})),
        }
        .into(),
        SessionCanvasRemoved {
            instance_id,
            extension_id,
            canvas_id,
        }
        .into(),
    ]
}
