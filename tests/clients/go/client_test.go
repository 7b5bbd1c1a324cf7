// Package clients runs the Go SDK and its example app against the built binary (LODGE_BIN).
package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
)

func start(t *testing.T, home string) *copilot.Client {
	t.Helper()
	client := copilot.NewClient(&copilot.ClientOptions{
		Connection:       copilot.StdioConnection{Path: os.Getenv("LODGE_BIN")},
		BaseDirectory:    home,
		WorkingDirectory: t.TempDir(),
	})
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Stop() })
	return client
}

func ask(t *testing.T, session *copilot.Session, prompt string) string {
	t.Helper()
	answer, err := session.SendPromptAndWait(context.Background(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Data.(*copilot.AssistantMessageData).Content
}

func TestATurnIsAnsweredListedAndResumed(t *testing.T) {
	home := t.TempDir()
	client := start(t, home)
	session, err := client.CreateSession(context.Background(), &copilot.SessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, session, "say hello there"); got != "hello there" {
		t.Fatalf("answered %q", got)
	}
	if got := ask(t, session, `call bash {"command":"echo from the shell"}`); !strings.Contains(got, "from the shell") {
		t.Fatalf("answered %q", got)
	}
	sessions, err := client.ListSessions(context.Background(), nil)
	if err != nil || len(sessions) != 1 || sessions[0].SessionID != session.SessionID {
		t.Fatalf("listed %v, %v", sessions, err)
	}
	if err := client.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := start(t, home).ResumeSession(context.Background(), session.SessionID, &copilot.ResumeSessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
	})
	if err != nil {
		t.Fatal(err)
	}
	events, err := again.GetEvents(context.Background())
	if err != nil || len(events) < 10 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if got := ask(t, again, "say again"); got != "again" {
		t.Fatalf("answered %q", got)
	}
}

func TestStatusAndModels(t *testing.T) {
	client := start(t, t.TempDir())
	status, err := client.GetStatus(context.Background())
	if err != nil || status.ProtocolVersion != 3 {
		t.Fatalf("%v, %v", status, err)
	}
	models, err := client.ListModels(context.Background())
	if err != nil || len(models) == 0 {
		t.Fatalf("%v, %v", models, err)
	}
}

func TestTheExampleAppDoesItsFiveThings(t *testing.T) {
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(t.TempDir(), "app")
	build := exec.Command("go", "build", "-mod=readonly", "-o", app, ".")
	build.Dir = filepath.Join(examples, "go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.Command(app)
	run.Dir = t.TempDir()
	run.Stderr = os.Stderr
	got, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(examples, "expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	// The SDK itself prints a line when it closes a connection.
	noise := regexp.MustCompile(`(?m)^Error reading message: .*\n`)
	if printed := noise.ReplaceAllString(string(got), ""); printed != string(want) {
		t.Fatalf("printed:\n%s\nwanted:\n%s", printed, want)
	}
}
