// Command peers runs the own tests of bsm/redislock and redsync against our package, with the module and without it:
// on the servers at PORT and BARE_PORT.
//
// The tests are read from Go's module cache, at the versions in go.mod, and laid over the adapters in bsm and redsync.
// What can't pass is in cannot_pass.txt. A test that fails and is not named there fails the run; so does one that is
// named and passes, or is not there.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type peer struct {
	folder, module string
	run            []string          // their files of tests
	left           []string          // those that test what an adapter can't have: each test of them has its reason
	edits          map[string]string // by what stands in one of the files that are run
	server         string            // a file that starts their servers, of which only TestRedsync is run
}

var peers = []peer{{
	folder: "bsm", module: "github.com/bsm/redislock",
	run:  []string{"redislock_test.go", "example_test.go"},
	left: []string{"retry_strategy_test.go"},
	edits: map[string]string{
		`"github.com/bsm/redislock"`: `"redislock/tests/peers/bsm"`,
		"127.0.0.1:6379":             "127.0.0.1:" + port,
		"22, len(lock.Token())":      `true, lock.Token() != ""`, // its length is theirs
		// They expire within what a busy machine takes to reply.
		"quickObtain(t, rc, 5*time.Millisecond)":  "quickObtain(t, rc, 300*time.Millisecond)",
		"time.Sleep(10 * time.Millisecond)":       "time.Sleep(400 * time.Millisecond)",
		"quickObtain(t, rc, 20*time.Millisecond)": "quickObtain(t, rc, 300*time.Millisecond)",
		"LinearBackoff(20*time.Millisecond)":      "LinearBackoff(10*time.Second)",
		"quickObtain(t, rc, 50*time.Millisecond)": "quickObtain(t, rc, time.Minute)",
		"100*time.Millisecond, nil)":              "time.Second, nil)",
		"time.Sleep(100 * time.Millisecond)":      "time.Sleep(1100 * time.Millisecond)",
	},
}, {
	folder: "redsync", module: "github.com/go-redsync/redsync/v4",
	run:    []string{"mutex_test.go"},
	left:   []string{"error_test.go", "scripts_test.go"},
	server: "redsync_test.go",
}}

// port is replaced by that of the server.
const port = "PORT"

var testName = regexp.MustCompile(`(?m)^func (Test\w*)\(`)

func main() {
	reasons := reasons()
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Printf("  --  %s can't pass: %s\n", name, reasons[name])
	}
	outcomes := make(chan outcome, 2)
	for server, port := range map[string]string{
		"with the module": os.Getenv("PORT"), "without the module": os.Getenv("BARE_PORT"),
	} {
		go func() { outcomes <- outcomesOn(server, port) }()
	}
	wrong := false
	for range 2 {
		wrong = !judge(<-outcomes, reasons) || wrong
	}
	if wrong {
		os.Exit(1)
	}
}

// An outcome is whether each test passed, by its peer and name, and what was printed.
type outcome struct {
	server  string
	passed  map[string]bool
	printed map[string]string
}

func outcomesOn(server, port string) outcome {
	o := outcome{server, map[string]bool{}, map[string]string{}}
	folder := must(os.MkdirTemp("", "peers-"))
	defer func() { _ = os.RemoveAll(folder) }()
	over := map[string]string{}
	for _, peer := range peers {
		for file, text := range peer.texts(port, o.passed) {
			written := filepath.Join(folder, peer.folder+"_"+file)
			check(os.WriteFile(written, []byte(text), 0o600))
			over[must(filepath.Abs(filepath.Join(peer.folder, "peer_"+file)))] = written
		}
	}
	overlay := filepath.Join(folder, "overlay.json")
	check(os.WriteFile(overlay, must(json.Marshal(map[string]any{"Replace": over})), 0o600))

	test := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=200s", "-json", "-overlay", overlay,
		"./bsm", "./redsync")
	test.Env, test.Stderr = append(os.Environ(), "PORT="+port), os.Stderr
	output, _ := test.Output() // some fail
	for line := range bytes.Lines(output) {
		var event struct{ Action, Package, ImportPath, Test, Output string }
		check(json.Unmarshal(line, &event))
		name := filepath.Base(event.Package) + " " + event.Test
		top, _, _ := strings.Cut(name, "/")
		switch {
		case event.Action == "build-output":
			fmt.Fprint(os.Stderr, event.Output)
		case event.Action == "output":
			o.printed[top] += event.Output
		case event.Test != "" && top == name && event.Action != "run":
			o.passed[name] = event.Action == "pass"
		}
	}
	return o
}

// texts are the files of a peer that are run. Of all of its tests it notes that they have not passed yet.
func (p *peer) texts(port string, passed map[string]bool) map[string]string {
	dir := strings.TrimSpace(string(must(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", p.module).Output())))
	read := func(file string) string { return string(must(os.ReadFile(filepath.Join(dir, file)))) }
	texts := map[string]string{}
	for _, file := range p.run {
		texts[file] = read(file)
	}
	if p.server != "" {
		function := regexp.MustCompile(`(?ms)^func TestRedsync\(.*?^}$`).FindString(read(p.server))
		texts[p.run[0]] += "\n" + function + "\n"
	}
	all := texts[p.run[0]]
	for _, file := range p.left {
		all += read(file)
	}
	for _, name := range testName.FindAllStringSubmatch(all, -1) {
		passed[p.folder+" "+name[1]] = false
	}
	for theirs, ours := range p.edits {
		found := false
		for file, text := range texts {
			found = found || strings.Contains(text, theirs)
			texts[file] = strings.ReplaceAll(text, theirs, strings.ReplaceAll(ours, "PORT", port))
		}
		if !found {
			check(fmt.Errorf("%s's tests don't have %s any more", p.folder, theirs))
		}
	}
	return texts
}

// reasons are those in cannot_pass.txt, by the peer and the name of the test.
func reasons() map[string]string {
	reasons := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile("cannot_pass.txt")))) {
		if words := strings.SplitN(strings.TrimSpace(line), " ", 3); words[0] != "#" {
			reasons[words[0]+" "+words[1]] = words[2]
		}
	}
	return reasons
}

// judge reports whether all is as it is expected.
func judge(o outcome, reasons map[string]string) bool {
	good := true
	for name := range reasons {
		if _, exists := o.passed[name]; !exists {
			good = false
			fmt.Printf("FAIL  %s is named in cannot_pass.txt, and is no test\n", name)
		}
	}
	passed, all := map[string]int{}, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(o.passed)) {
		did := o.passed[name]
		folder, _, _ := strings.Cut(name, " ")
		all[folder]++
		if did {
			passed[folder]++
		}
		if _, listed := reasons[name]; did == listed {
			good = false
			fmt.Printf("FAIL  %s %s: passed is %v, and %v was expected\n%s", name, o.server, did, !listed, o.printed[name])
		}
	}
	for _, peer := range peers {
		fmt.Printf("%s %s: %d of %d of its own tests pass\n", peer.module, o.server, passed[peer.folder], all[peer.folder])
	}
	return good
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
