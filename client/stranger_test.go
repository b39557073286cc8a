package client

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program of others imports this package and nothing else of this repository: no broker for tests, no
// module that only exists here.
func TestAProgramOutsideTheRepositoryImportsIt(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module stranger\n\ngo 1.26.0\n\nrequire github.com/liquida/liquida/client v0.0.0\n\nreplace github.com/liquida/liquida/client => " + here + "\n",
		"main.go": `package main

import (
	"fmt"

	"github.com/liquida/liquida/client"
)

func main() {
	_, err := client.New(client.DefaultURL, "")
	account, wrong := client.ParseAccount("10000001/0001/1")
	id, none := client.NewEndToEndID(account)
	fmt.Println(len(id), err, wrong, none)
}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct{ command, says string }{
		{"run .", "32 <nil> <nil> <nil>"},
		{"list -m all", "stranger\ngithub.com/liquida/liquida/client v0.0.0 => " + here},
	} {
		command := exec.Command("go", strings.Fields(c.command)...)
		command.Dir = folder

		command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
		if said, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != c.says {
			t.Errorf("go %s: %v %s, want %s", c.command, err, said, c.says)
		}
	}
}
