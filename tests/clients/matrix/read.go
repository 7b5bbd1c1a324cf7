// Reads events, one per line, with the types of one release of the Go SDK.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	copilot "github.com/github/copilot-sdk/go"
)

func main() {
	wrong := false
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event copilot.SessionEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			fmt.Printf("%v: %s\n", err, lines.Text())
			wrong = true
		}
	}
	if wrong {
		os.Exit(1)
	}
}
