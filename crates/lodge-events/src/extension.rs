//! Extensions: programs that join a session. Factories: work that extensions offer, run by run.

use serde_json::Value;

use crate::macros::{events, shapes};

events! {
    "Extensions and factories";

    "session.extensions_loaded" SessionExtensionsLoaded ephemeral newer
        "The extensions of the session, or what they are doing, changed." {
        extensions: Vec<ExtensionInfo> = "All extensions.",
    }

    "factory.run_started" FactoryRunStarted ephemeral newer
        "A factory run began, or was resumed." {
        run_id: String = "The run.",
        factory_name: String = "The factory.",
        attempt: u64 = "Number of the attempt, from 1.",
    }

    "factory.run_updated" FactoryRunUpdated ephemeral newer
        "A factory run changed." {
        run_id: String = "The run.",
        revision: u64 = "How many changes there were.",
    }

    "factory.run_settled" FactoryRunSettled ephemeral newer
        "A factory run ended." {
        run_id: String = "The run.",
        status: String = "How it ended: `completed`, `error`, `halted` or `cancelled`.",
        consumed_subagents: u64 = "Sub-agents that it started in all.",
        consumed_nano_aiu: u64 = "What they cost, in billionths of an AI unit.",
        elapsed_ms: u64 = "Milliseconds that it ran in all.",
        failure_type? String = "What kind of failure ended it.",
    }

    "lodge.factory_started" LodgeFactoryStarted persisted newer
        "A factory run began, or was resumed." {
        run_id: String = "The run.",
        name: String = "The factory.",
        description? String = "What the factory does. Left out when the run is resumed.",
        phases? Vec<FactoryPhase> = "The phases that the factory declares. Left out when the run is resumed.",
        declared_limits? Value = "The limits that the factory declares. Left out when the run is resumed.",
        limits? Value = "The limits of this attempt.",
        args? Value = "What the factory was called with. Left out when the run is resumed.",
        attempt: u64 = "Number of the attempt, from 1.",
    }

    "lodge.factory_logged" LodgeFactoryLogged persisted newer
        "A factory run told of its progress." {
        run_id: String = "The run.",
        lines: Vec<FactoryLine> = "What it told.",
    }

    "lodge.factory_agent" LodgeFactoryAgent persisted newer
        "A sub-agent of a factory run began or ended." {
        run_id: String = "The run.",
        agent_id: String = "The sub-agent.",
        tool_call_id: String = "The tool call that its events name.",
        label: String = "Its name for people.",
        agent_type: String = "Its kind.",
        requested_model? String = "The model that the factory asked for.",
        model? String = "Its model.",
        status: String = "`running`, `completed`, `failed` or `cancelled`.",
        cost? f64 = "What it cost, in the provider's unit.",
        active_ms? u64 = "Milliseconds that it ran.",
    }

    "lodge.factory_step" LodgeFactoryStep persisted newer
        "A step of a factory run is done, and is not done again when the run is resumed." {
        run_id: String = "The run.",
        key: String = "The step.",
        result: Value = "What came of it.",
    }

    "lodge.factory_settled" LodgeFactorySettled persisted newer
        "A factory run ended." {
        run_id: String = "The run.",
        status: String = "How it ended: `completed`, `error`, `halted` or `cancelled`.",
        result? Value = "What came of it.",
        error? String = "What went wrong.",
        reason? String = "Why it was stopped.",
        failure? Value = "What went wrong, for programs.",
        elapsed_ms: u64 = "Milliseconds that this attempt ran.",
    }
}

shapes! {
    ExtensionInfo "An extension of a session." {
        id: String = "Its name with its source, e.g. `project:charts`.",
        name: String = "The name of its directory.",
        source: String = "Where it comes from: `project`, `user` or `plugin`.",
        status: String = "`starting`, `running`, `failed` or `disabled`.",
    }
    FactoryPhase "A phase that a factory declares." {
        title: String = "Its name.",
        detail? String = "What happens in it.",
    }
    FactoryLine "A line of a factory run's progress." {
        seq: u64 = "Its number within the attempt, as the factory counts.",
        kind: String = "`log`, or `phase` where a phase begins.",
        text: String = "The line, or the title of the phase.",
    }
}
