//! The list of all event types, and what is generated from it: [`EventType`], [`Payload`], [`TYPES`].

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::*;

/// The typed data of an event: a struct that one event type carries.
pub trait EventData: Serialize + DeserializeOwned + Into<Payload> {
    /// The type that carries it.
    const TYPE: EventType;

    /// This data, if the payload is of this type.
    fn from_payload(payload: &Payload) -> Option<&Self>;
}

/// Data without a struct: of a type this version does not know, or of a known type in a form that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    pub(crate) kind: Box<str>,
    pub(crate) ephemeral: bool,
    pub(crate) data: Box<str>,
}

impl Unknown {
    /// Data of any type, as JSON. `None` when it is not a JSON object.
    pub fn new(kind: &str, ephemeral: bool, data: &serde_json::value::RawValue) -> Option<Self> {
        let data = data.get();
        data.starts_with('{').then(|| Self {
            kind: kind.into(),
            ephemeral,
            data: data.replace(['\n', '\r'], " ").into(),
        })
    }

    /// Name of the type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The data as it was read.
    pub fn data(&self) -> &str {
        &self.data
    }
}

/// A type whose persistence differs between the seeds, which Lodge follows, and the newest published schema.
#[derive(Debug, Clone, Copy)]
pub struct PersistenceDifference {
    /// Name of the type.
    pub name: &'static str,
    /// Whether it is ephemeral here.
    pub ephemeral: bool,
    /// Why the difference does no harm.
    pub reason: &'static str,
}

const RE_ASKED: &str = "The SDK's event guide says ephemeral, the newest schema persists it. Request ids follow from the tool \
    call, so after a restart an open question is asked again under the same id and nothing about it needs to be in the log.";

/// Every type that is ephemeral in the SDK's event guide and persisted in the newest schema, with the reason to follow the guide.
pub static PERSISTENCE_DIFFERENCES: &[PersistenceDifference] = &[
    PersistenceDifference {
        name: PermissionRequested::INFO.name,
        ephemeral: true,
        reason: RE_ASKED,
    },
    PersistenceDifference {
        name: PermissionCompleted::INFO.name,
        ephemeral: true,
        reason: RE_ASKED,
    },
    PersistenceDifference {
        name: ExternalToolRequested::INFO.name,
        ephemeral: true,
        reason: RE_ASKED,
    },
    PersistenceDifference {
        name: ExternalToolCompleted::NAME,
        ephemeral: true,
        reason: "The SDK's event guide says ephemeral; the newest schema allows the flag but does not want it, and the Copilot \
            CLI persists it. The result is in `tool.execution_complete`, so nothing is lost.",
    },
];

/// A field that the guide lists and the newest schema, whose objects are closed, does not have.
#[derive(Debug, Clone, Copy)]
pub struct SeedOnlyField {
    /// Name of the event type.
    pub name: &'static str,
    /// Where the field is in the event's data, as a JSON pointer.
    pub pointer: &'static str,
    /// What took its place.
    pub reason: &'static str,
}

const RENAMED: &str = "today's name is longer; both are written";

/// Every field that the seeds list and the newest schema does not have. They are read, and written
/// beside today's, which all clients pass over that do not know them.
pub static SEED_ONLY_FIELDS: &[SeedOnlyField] = &[
    SeedOnlyField {
        name: SessionIdle::NAME,
        pointer: "/backgroundTasks",
        reason: "`session.background_tasks_changed` tells clients to ask for the tasks; written while a shell runs",
    },
    SeedOnlyField {
        name: SessionCompactionComplete::NAME,
        pointer: "/compactionTokensUsed/input",
        reason: RENAMED,
    },
    SeedOnlyField {
        name: SessionCompactionComplete::NAME,
        pointer: "/compactionTokensUsed/output",
        reason: RENAMED,
    },
    SeedOnlyField {
        name: SessionCompactionComplete::NAME,
        pointer: "/compactionTokensUsed/cachedInput",
        reason: RENAMED,
    },
];

macro_rules! catalogue {
    ($($name:ident)*) => {
        /// The event types this version knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the struct of the same name has the documentation")]
        pub enum EventType { $($name),* }

        /// All event types this version knows, in the order of [`EventType`].
        pub static TYPES: &[TypeInfo] = &[$($name::INFO),*];

        // A type that is defined but not listed below would be read as unknown: better not to compile.
        const _: () = assert!(
            [$($name::NAME),*].len()
                == assistant::DEFINED + tool::DEFINED + session::DEFINED + settings::DEFINED + schedule::DEFINED
                    + canvas::DEFINED + extension::DEFINED + ask::DEFINED + subagent::DEFINED + conversation::DEFINED + mcp::DEFINED + beside::DEFINED,
            "every event type must be listed in the catalogue, once"
        );

        impl EventType {
            /// The type of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name::NAME => Some(Self::$name), )*
                    _ => None,
                }
            }
        }

        /// The typed data of an event.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the struct of the same name has the documentation")]
        pub enum Payload {
            $( $name(Box<$name>), )*
            /// Data of an unknown type, or of a known type in a form that does not fit.
            Unknown(Box<Unknown>),
        }

        impl Payload {
            /// The type, when it is known and the data fits.
            pub fn event_type(&self) -> Option<EventType> {
                match self {
                    $( Self::$name(_) => Some(EventType::$name), )*
                    Self::Unknown(_) => None,
                }
            }

            /// Reads data of a known type; `None` when it does not fit.
            pub(crate) fn read(event_type: EventType, data: &str) -> Option<Self> {
                match event_type {
                    $( EventType::$name => Some(Self::$name(Box::new(serde_json::from_str(data).ok()?))), )*
                }
            }

            /// Writes the data as JSON.
            pub(crate) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(data) => write_json(out, &**data), )*
                    Self::Unknown(unknown) => out.extend_from_slice(unknown.data.as_bytes()),
                }
            }
        }

        $(
            impl From<$name> for Payload {
                fn from(data: $name) -> Self {
                    Self::$name(Box::new(data))
                }
            }

            impl EventData for $name {
                const TYPE: EventType = EventType::$name;

                fn from_payload(payload: &Payload) -> Option<&Self> {
                    match payload {
                        Payload::$name(data) => Some(data),
                        _ => None,
                    }
                }
            }
        )*
    };
}

catalogue! {
    AssistantTurnStart AssistantIntent AssistantReasoning AssistantReasoningDelta AssistantStreamingDelta
    AssistantMessage AssistantMessageStart AssistantMessageDelta AssistantToolCallDelta
    AssistantTurnRetry AssistantTurnEnd AssistantIdle AssistantUsage
    ModelCallStart ModelCallFinished ModelCallFailure AgentInterrupted
    ToolUserRequested ToolExecutionStart ToolExecutionPartialResult ToolShellOutput ToolExecutionProgress ToolExecutionComplete
    SessionStart SessionResume SessionIdle SessionError SessionInfo SessionWarning
    SessionCompactionStart SessionCompactionComplete SessionContextCleared SessionSnapshotRewind
    SessionTitleChanged SessionContextChanged SessionUsageInfo SessionTaskComplete
    SessionShutdown SessionModelChange SessionAutoTierSwitchFailed SessionModeChanged SessionAutopilotStopped SessionPlanChanged SessionTodosChanged
    SessionWorkspaceFileChanged SessionBackgroundTasksChanged SessionBinaryAsset
    SessionRemoteSteerableChanged
    SessionPermissionsChanged SessionSessionLimitsChanged SessionToolsUpdated CapabilitiesChanged CommandsChanged
    SessionCustomAgentsUpdated SessionSkillsLoaded SessionManagedSettingsResolved SessionManagedSettingsEnforced
    SessionAutoModeResolved SessionMemoryChanged
    SessionScheduleCreated SessionScheduleCancelled SessionScheduleRearmed
    SessionCanvasRegistryChanged SessionCanvasOpened SessionCanvasUnavailable SessionCanvasClosed SessionCanvasRecorded
    SessionCanvasRemoved SessionExtensionsLoaded FactoryRunStarted FactoryRunUpdated FactoryRunSettled
    LodgeFactoryStarted LodgeFactoryLogged LodgeFactoryAgent LodgeFactoryStep LodgeFactorySettled
    PermissionRequested PermissionCompleted UserInputRequested UserInputCompleted ElicitationRequested
    ElicitationCompleted ExternalToolRequested ExternalToolCompleted CommandQueued CommandExecute CommandCompleted
    ExitPlanModeRequested ExitPlanModeCompleted AutoModeSwitchRequested AutoModeSwitchCompleted
    SessionLimitsExhaustedRequested SessionLimitsExhaustedCompleted
    SubagentStarted SubagentConfigured SubagentCompleted SubagentFailed SubagentSelected SubagentDeselected
    SkillInvoked HookStart HookEnd
    UserMessage PendingMessagesModified SystemMessage SystemNotification Abort
    SessionMcpServersLoaded SessionMcpServerStatusChanged SessionMcpServerToolsLoaded SessionMcpServerRemoved SessionMcpServerNeedsReconnect
    McpToolsListChanged McpResourcesListChanged McpPromptsListChanged McpOauthRequired McpOauthCompleted
    SamplingRequested SamplingCompleted
    LodgeUsage LodgeUsageCarried LodgeApproval LodgeScheduleRan LodgeProgram LodgeRules LodgeRewound
    LodgeMessageWritten LodgeMessageQueued LodgeMessageBegun LodgeMessageEdited LodgeMessageMoved LodgeMessageRemoved LodgeMessageParked
    LodgeTurnRetried LodgePartial LodgeTurnResumed LodgeQuestion LodgeAnswered
    LodgeNamed LodgeDirectories LodgeWorktreeWanted LodgeWorktree LodgeSwitched LodgeChat LodgeChats
}

impl EventType {
    /// Everything known about the type.
    pub fn info(self) -> &'static TypeInfo {
        &TYPES[self as usize]
    }

    /// Name on the wire.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether events of this type are sent but never written to the log.
    pub fn is_ephemeral(self) -> bool {
        self.info().ephemeral
    }
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Payload {
    /// Name of the type on the wire.
    pub fn kind(&self) -> &str {
        match self {
            Self::Unknown(unknown) => &unknown.kind,
            known => known.event_type().map_or("", EventType::name),
        }
    }

    /// Whether an event made of this payload is ephemeral.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            Self::Unknown(unknown) => unknown.ephemeral && !is_beside(&unknown.kind),
            known => known.event_type().is_some_and(EventType::is_ephemeral),
        }
    }
}

fn write_json<T: Serialize>(out: &mut Vec<u8>, data: &T) {
    serde_json::to_writer(out, data).expect("event data has text keys only, and writing to memory does not fail");
}
