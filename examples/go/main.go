// Lodge behind the Copilot SDK for Go: five small things an app does.
//
//	LODGE_BIN=/path/to/lodge go run .
//
// No key and no network are needed: the prompts below are for the built-in rehearsal model, which does what it is told
// in plain words (docs/rehearsal.md). With a real model, ask in your own words.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"sync"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

var (
	ctx   = context.Background()
	lodge = "lodge"
	home  string
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func send(session *copilot.Session, prompt string) string {
	answer := must(session.SendPromptAndWait(ctx, prompt))
	return answer.Data.(*copilot.AssistantMessageData).Content
}

func streamAnAnswer(client *copilot.Client) {
	session := must(client.CreateSession(ctx, &copilot.SessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
		Streaming:           copilot.Bool(true),
	}))
	text := ""
	session.On(func(event copilot.SessionEvent) {
		if delta, ok := event.Data.(*copilot.AssistantMessageDeltaData); ok {
			text += delta.DeltaContent
		}
	})
	send(session, "say streamed word by word")
	fmt.Println("stream:", text)
}

func callOurTool(client *copilot.Client) {
	type place struct {
		City string `json:"city"`
	}
	weather := copilot.DefineTool("weather", "The weather in a city",
		func(where place, _ copilot.ToolInvocation) (string, error) {
			return "21 degrees in " + where.City, nil
		})
	session := must(client.CreateSession(ctx, &copilot.SessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
		Tools:               []copilot.Tool{weather},
	}))
	fmt.Println("tool:", send(session, `call weather {"city":"Oslo"}`))
}

func askForPermission(client *copilot.Client) {
	session := must(client.CreateSession(ctx, &copilot.SessionConfig{
		OnPermissionRequest: func(request copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			if shell, ok := request.(*copilot.PermissionRequestShell); ok {
				fmt.Printf("permission: may it run `%s`? yes\n", shell.FullCommandText)
			}
			return &rpc.PermissionDecisionApproveOnce{}, nil
		},
	}))
	fmt.Println("permission:", send(session, `call bash {"command":"touch made && echo allowed"}`))
}

// startHost starts a host of its own, which any number of clients can reach by its address.
func startHost() (*exec.Cmd, string) {
	host := exec.Command(lodge, "--headless", "--port", "0")
	host.Env = append(os.Environ(), "COPILOT_HOME="+home)
	host.Stderr = os.Stderr
	out := must(host.StdoutPipe())
	if err := host.Start(); err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := regexp.MustCompile(`listening on port (\d+)`).FindStringSubmatch(lines.Text()); found != nil {
			return host, "127.0.0.1:" + found[1]
		}
	}
	log.Fatal("the host did not start")
	return nil, ""
}

func connect(url string) *copilot.Client {
	client := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.URIConnection{URL: url}})
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	return client
}

func killTheHostAndResume() {
	host, url := startHost()
	client := connect(url)
	session := must(client.CreateSession(ctx, &copilot.SessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
		Streaming:           copilot.Bool(true),
	}))
	var lock sync.Mutex
	var seen []string
	midTurn := make(chan struct{})
	var once sync.Once
	session.On(func(event copilot.SessionEvent) {
		lock.Lock()
		defer lock.Unlock()
		if event.Ephemeral == nil || !*event.Ephemeral {
			seen = append(seen, event.ID)
		}
		if _, ok := event.Data.(*copilot.AssistantMessageDeltaData); ok {
			once.Do(func() { close(midTurn) })
		}
	})
	must(session.SendPrompt(ctx, `call bash {"command":"echo hello"} then slowly 2 ms, stream 2000 chunks`))
	<-midTurn
	host.Process.Kill()
	host.Wait()
	client.ForceStop()

	host, url = startHost()
	client = connect(url)
	resumed := must(client.ResumeSession(ctx, session.SessionID, &copilot.ResumeSessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
	}))
	kept := map[string]bool{}
	for _, event := range must(resumed.GetEvents(ctx)) {
		kept[event.ID] = true
	}
	lost := 0
	lock.Lock()
	for _, id := range seen {
		if !kept[id] {
			lost++
		}
	}
	lock.Unlock()
	fmt.Printf("resume: %d events lost; %s\n", lost, send(resumed, "say and on it goes"))
	client.Stop()
	host.Process.Kill()
	host.Wait()
}

func twoClients() {
	host, url := startHost()
	one, two := connect(url), connect(url)
	mine := must(one.CreateSession(ctx, &copilot.SessionConfig{OnPermissionRequest: copilot.PermissionHandler.ApproveAll}))
	yours := must(two.ResumeSession(ctx, mine.SessionID, &copilot.ResumeSessionConfig{
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
	}))
	heard := make(chan string, 1)
	yours.On(func(event copilot.SessionEvent) {
		if message, ok := event.Data.(*copilot.AssistantMessageData); ok {
			heard <- message.Content
		}
	})
	send(mine, "say hello to both of you")
	fmt.Printf("two clients: the other one heard %q\n", <-heard)
	one.Stop()
	two.Stop()
	host.Process.Kill()
	host.Wait()
}

func main() {
	if path := os.Getenv("LODGE_BIN"); path != "" {
		lodge = path
	}
	home = must(os.MkdirTemp("", "lodge-example-"))
	client := copilot.NewClient(&copilot.ClientOptions{
		Connection:    copilot.StdioConnection{Path: lodge},
		BaseDirectory: home,
	})
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	streamAnAnswer(client)
	callOurTool(client)
	askForPermission(client)
	client.Stop()
	killTheHostAndResume()
	twoClients()
}
