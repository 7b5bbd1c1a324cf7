//! A host that has lost a session to another one starts nothing for it any more.

use std::{
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use lodge_agent::{
    Agent, Approval, AutoChoice, Change, Compaction, Customization, Ending, Facts, HookFiles, Mode, NewAgent, Prompt,
    Publish, Remote, RemoteLog, Secrets, Settings, SubagentSettings, SystemMessage, ToolFilter,
};
use lodge_events::{AssistantMessage, Event, SessionIdle, UserMessage};
use lodge_external::{AgentEntry, Program};
use lodge_log::{Home, HomeOptions, Store as _};
use lodge_mcp::Logins;
use lodge_models::{Catalogue, Model, ModelsConfig};
use lodge_tools::{
    Attempt, Need, OutputSink, SessionTools, Tool, ToolCx, ToolError, ToolOutput,
    changes::{Changes, Limits},
    rules::RuleSet,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A log elsewhere that takes everything, until somebody looks whether another host has taken it.
struct Elsewhere {
    is_taken: bool,
}

impl RemoteLog for Elsewhere {
    fn append<'a>(&'a mut self, _: &'a [Event]) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn verify(&mut self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(if self.is_taken {
            Err("another host has it".into())
        } else {
            Ok(())
        }))
    }
}

/// How a session is lost.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Never,
    /// The lease runs out, and nobody has taken the session yet.
    OutOfLease,
    /// The lease ran out, another host took the session, and the lease was taken again.
    Taken,
}

/// Loses the session once an event of this kind is safe.
struct Listener {
    loses_at: Option<&'static str>,
    loss: Loss,
    /// The lease's term; 0 when it does not hold.
    term: Arc<AtomicU64>,
    idle: Notify,
}

impl Publish for Listener {
    fn publish(&self, event: &Event) {
        if Some(event.kind()) == self.loses_at {
            let term = if self.loss == Loss::Taken { 2 } else { 0 };
            self.term.store(term, Ordering::SeqCst);
        }
        if event.is::<SessionIdle>() {
            self.idle.notify_one();
        }
    }
}

/// The tool for commands, which says whether a command was tried that nobody approved.
struct Watched {
    bash: Arc<dyn Tool>,
    tried: Arc<AtomicBool>,
}

impl Tool for Watched {
    fn name(&self) -> &'static str {
        self.bash.name()
    }
    fn description(&self) -> &'static str {
        self.bash.description()
    }
    fn parameters(&self) -> Arc<Value> {
        self.bash.parameters()
    }
    fn need(&self, arguments: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        self.bash.need(arguments, cx)
    }
    fn try_unasked(&self, _: &Value, _: &ToolCx) -> Option<BoxFuture<'static, Attempt>> {
        self.tried.store(true, Ordering::SeqCst);
        Some(Box::pin(std::future::ready(Attempt::Ended(Ok(ToolOutput::default())))))
    }
    fn run(&self, arguments: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.bash.run(arguments, cx)
    }
}

struct Bench {
    dir: tempfile::TempDir,
    agent: Agent,
    listener: Arc<Listener>,
    tried: Arc<AtomicBool>,
}

impl Bench {
    fn new(loss: Loss, at: &'static str, program: Option<AgentEntry>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, work) = (dir.path().join("home"), dir.path().join("work"));
        std::fs::create_dir(&work).unwrap();
        let home = Home::open(&path, HomeOptions::default()).unwrap();
        let session_dir = home.sessions().dir("s").unwrap();
        let trust = lodge_trust::Store::at(&path);
        trust.trust(&work, &[]).unwrap();
        let models = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
        let model: Arc<dyn Model> = match program {
            Some(entry) => Arc::new(Program::new("other", entry)),
            None => models.resolve(None).unwrap(),
        };
        let tried = Arc::<AtomicBool>::default();
        let builtins = lodge_tools::builtin().into_iter().map(|tool| match tool.name() {
            "bash" => Arc::new(Watched {
                bash: tool,
                tried: tried.clone(),
            }),
            _ => tool,
        });
        let term = Arc::new(AtomicU64::new(1));
        let listener = Arc::new(Listener {
            loses_at: (loss != Loss::Never).then_some(at),
            loss,
            term: term.clone(),
            idle: Notify::new(),
        });
        let agent = Agent::spawn(NewAgent {
            id: "s".into(),
            log: home.sessions().create("s").unwrap(),
            reopen: Box::new(move || Ok(home.sessions().open("s")?.log)),
            facts: Facts::default(),
            settings: settings(model, &work),
            builtins: builtins.collect(),
            tool_state: Arc::new(SessionTools::new(&session_dir)),
            changes: Arc::new(Changes::new(&session_dir, &path, Limits::default())),
            rules: RuleSet::default(),
            trust,
            find_hooks: Arc::new(|_, _| lodge_tools::hooks::FileHooks::default()),
            logins: Arc::new(Logins::new(path.join("logins"))),
            publish: listener.clone(),
            secrets: Arc::new(Secrets::default()),
            remote: Some(Remote {
                log: Box::new(Elsewhere {
                    is_taken: loss == Loss::Taken,
                }),
                term: Box::new(move || Some(term.load(Ordering::SeqCst)).filter(|term| *term > 0)),
                taken_in: 1,
            }),
            dir: session_dir,
        });
        Self {
            dir,
            agent,
            listener,
            tried,
        }
    }

    /// Has a message answered, or not.
    async fn turn(&self, text: &str) {
        let prompt = Prompt {
            text: text.into(),
            ..Prompt::default()
        };
        let _ = self.agent.send(prompt).await;
        self.listener.idle.notified().await;
    }

    fn has(&self, file: &str) -> bool {
        self.dir.path().join("work").join(file).exists()
    }
}

fn settings(model: Arc<dyn Model>, work: &Path) -> Settings {
    Settings {
        model,
        reasoning_effort: None,
        reasoning_summary: None,
        limit: None,
        auto_switch: false,
        auto: AutoChoice::default(),
        streaming: true,
        cwd: work.to_owned(),
        additional_directories: Vec::new(),
        system_message: SystemMessage::Default,
        tools: ToolFilter::default(),
        mode: Mode::Interactive,
        approval: Approval::ApproveAll,
        name: None,
        client_name: None,
        headers: Default::default(),
        citations: false,
        memory: false,
        compaction: Compaction::default(),
        max_tool_output: 1 << 16,
        ask_by_form: false,
        project_instructions: false,
        organization_instructions: None,
        git: false,
        hook_files: HookFiles::Off,
        instruction_directories: Vec::new(),
        customization: Customization::default(),
        subagents: SubagentSettings::default(),
        models: None,
        allowed_models: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_the_session_starts_no_program() {
    for loss in [Loss::Never, Loss::OutOfLease, Loss::Taken] {
        let loses = loss != Loss::Never;
        // A command that only reads, which nobody has to approve: plan mode holds it to that.
        let bench = Bench::new(loss, AssistantMessage::NAME, None);
        bench.agent.configure(Change::Mode(Mode::Plan)).await.unwrap();
        bench
            .turn(r#"call bash {"command":"ls","description":"look"} then say done"#)
            .await;
        assert_eq!(bench.tried.load(Ordering::SeqCst), !loses);

        // A command of an app.
        let out = OutputSink::new(|_| {});
        let command = bench.agent.run_for_user("touch made", None, out).await;
        match command {
            Ok(command) => drop(command.exited().await),
            Err(error) => assert!(loses, "{error}"),
        }
        assert_eq!(bench.has("made"), !loses);
        bench.agent.close(Ending::Routine).await;

        // Another program's agent.
        let script = r#"touch started
read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r line"#;
        let entry = json!({ "command": "sh", "args": ["-c", script] });
        let entry: AgentEntry = serde_json::from_value(entry).unwrap();
        let bench = Bench::new(loss, UserMessage::NAME, Some(entry));
        bench.turn("go").await;
        assert_eq!(bench.has("started"), !loses);
        bench.agent.close(Ending::Routine).await;
    }
}
