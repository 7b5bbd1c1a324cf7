// Lodge behind the Copilot SDK for Java: five small things an app does. How to build it: tests/clients/java/pom.xml.
//
// No key and no network are needed: the prompts below are for the built-in rehearsal model, which does what it is told
// in plain words (docs/rehearsal.md). With a real model, ask in your own words.

import com.github.copilot.sdk.CopilotClient;
import com.github.copilot.sdk.CopilotSession;
import com.github.copilot.sdk.generated.AssistantMessageDeltaEvent;
import com.github.copilot.sdk.generated.AssistantMessageEvent;
import com.github.copilot.sdk.generated.PermissionRequestedEvent;
import com.github.copilot.sdk.json.CopilotClientOptions;
import com.github.copilot.sdk.json.PermissionHandler;
import com.github.copilot.sdk.json.PermissionRequestResult;
import com.github.copilot.sdk.json.PermissionRequestResultKind;
import com.github.copilot.sdk.json.ResumeSessionConfig;
import com.github.copilot.sdk.json.SessionConfig;
import com.github.copilot.sdk.json.ToolDefinition;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

public final class App {
    private static final String LODGE = System.getenv().getOrDefault("LODGE_BIN", "lodge");
    private static Path home;

    record Host(Process process, String url) {}

    private static String send(CopilotSession session, String prompt) throws Exception {
        return session.sendAndWait(prompt).get().getData().content();
    }

    private static void streamAnAnswer(CopilotClient client) throws Exception {
        var session = client.createSession(
                new SessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL).setStreaming(true)).get();
        var text = new StringBuffer();
        session.on(AssistantMessageDeltaEvent.class, delta -> text.append(delta.getData().deltaContent()));
        send(session, "say streamed word by word");
        System.out.println("stream: " + text);
    }

    private static void callOurTool(CopilotClient client) throws Exception {
        Map<String, Object> parameters =
                Map.of("type", "object", "properties", Map.of("city", Map.of("type", "string")));
        var weather = ToolDefinition.create("weather", "The weather in a city", parameters,
                call -> CompletableFuture.completedFuture("21 degrees in " + call.getArguments().get("city")));
        var session = client.createSession(new SessionConfig()
                .setOnPermissionRequest(PermissionHandler.APPROVE_ALL).setTools(List.of(weather))).get();
        System.out.println("tool: " + send(session, "call weather {\"city\":\"Oslo\"}"));
    }

    private static void askForPermission(CopilotClient client) throws Exception {
        PermissionHandler decide = (request, invocation) -> CompletableFuture.completedFuture(
                new PermissionRequestResult().setKind(PermissionRequestResultKind.APPROVED));
        var session = client.createSession(new SessionConfig().setOnPermissionRequest(decide)).get();
        // What the handler is given does not hold the command; the event does.
        session.on(PermissionRequestedEvent.class, event -> {
            var request = (Map<?, ?>) event.getData().permissionRequest();
            System.out.println("permission: may it run `" + request.get("fullCommandText") + "`? yes");
        });
        System.out.println("permission: " + send(session, "call bash {\"command\":\"touch made && echo allowed\"}"));
    }

    /** A host of its own, which any number of clients can reach by its address. */
    private static Host startHost() throws Exception {
        var builder = new ProcessBuilder(LODGE, "--headless", "--port", "0")
                .redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().put("COPILOT_HOME", home.toString());
        var process = builder.start();
        var lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            var port = Pattern.compile("listening on port (\\d+)").matcher(line);
            if (port.find()) {
                return new Host(process, "127.0.0.1:" + port.group(1));
            }
        }
        throw new IllegalStateException("the host did not start");
    }

    private static CopilotClient connect(String url) throws Exception {
        var client = new CopilotClient(new CopilotClientOptions().setCliUrl(url).setUseStdio(false));
        client.start().get();
        return client;
    }

    private static void killTheHostAndResume() throws Exception {
        var host = startHost();
        var client = connect(host.url());
        var session = client.createSession(
                new SessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL).setStreaming(true)).get();
        var seen = new CopyOnWriteArrayList<String>();
        var midTurn = new CompletableFuture<Void>();
        session.on(event -> {
            if (!Boolean.TRUE.equals(event.getEphemeral())) {
                seen.add(event.getId().toString());
            }
            if (event instanceof AssistantMessageDeltaEvent) {
                midTurn.complete(null);
            }
        });
        session.send("call bash {\"command\":\"echo hello\"} then slowly 2 ms, stream 2000 chunks").get();
        midTurn.get();
        host.process().destroyForcibly().waitFor();
        client.forceStop();

        host = startHost();
        client = connect(host.url());
        var resumed = client.resumeSession(session.getSessionId(),
                new ResumeSessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL)).get();
        Set<String> kept =
                resumed.getMessages().get().stream().map(e -> e.getId().toString()).collect(Collectors.toSet());
        var lost = seen.stream().filter(id -> !kept.contains(id)).count();
        System.out.println("resume: " + lost + " events lost; " + send(resumed, "say and on it goes"));
        client.stop().get();
        host.process().destroy();
    }

    private static void twoClients() throws Exception {
        var host = startHost();
        var one = connect(host.url());
        var two = connect(host.url());
        var mine = one.createSession(
                new SessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL)).get();
        var yours = two.resumeSession(mine.getSessionId(),
                new ResumeSessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL)).get();
        var heard = new CompletableFuture<String>();
        yours.on(AssistantMessageEvent.class, message -> heard.complete(message.getData().content()));
        send(mine, "say hello to both of you");
        System.out.println("two clients: the other one heard \"" + heard.get() + "\"");
        one.stop().get();
        two.stop().get();
        host.process().destroy();
    }

    public static void main(String[] args) throws Exception {
        home = Files.createTempDirectory("lodge-example-");
        var environment = new HashMap<>(System.getenv());
        environment.put("COPILOT_HOME", home.toString());
        try (var client = new CopilotClient(
                new CopilotClientOptions().setCliPath(LODGE).setEnvironment(environment))) {
            client.start().get();
            streamAnAnswer(client);
            callOurTool(client);
            askForPermission(client);
        }
        killTheHostAndResume();
        twoClients();
    }
}
