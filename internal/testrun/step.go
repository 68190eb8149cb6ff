package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// step is a group of commands whose time is counted together.
type step struct {
	name     string
	commands []command
}

// command is a program in a directory of the tree. Where it is `go test`, its events are read one by one.
type command struct {
	dir  string
	env  []string
	args []string
	nice int // how far it stands behind others that want the processor (man 7 sched)

	// more returns further arguments, which depend on the change. If there are none, there is nothing to run.
	more func() ([]string, error)
}

func (s step) run(r *report) bool {
	begun, ok := time.Now(), true
	var cpu time.Duration
	for i, c := range s.commands {
		used, err := c.run(r, s.name, i)
		cpu += used
		ok = ok && err == nil
	}
	r.step(s.name, time.Since(begun), cpu, ok)
	return ok
}

func (c command) run(r *report, step string, number int) (time.Duration, error) {
	tests := len(c.args) > 1 && c.args[0] == "go" && c.args[1] == "test"
	args := slices.Clone(c.args)
	if c.more != nil {
		more, err := c.more()
		if err != nil {
			r.fail(step+": "+strings.Join(c.args, " "), err.Error())
			return 0, err
		}
		if len(more) == 0 {
			return 0, nil
		}
		args = append(args, more...)
	}
	if tests {
		args = append([]string{"go", "test", "-json"}, args[2:]...)
	}
	cmd := exec.Command("nice", append([]string{"-n", strconv.Itoa(c.nice)}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	var (
		output bytes.Buffer
		mu     sync.Mutex // guards output, which both streams write to
	)
	into := func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		output.Write(p)
	}
	logs, err := os.Create(filepath.Join(logDir(), fmt.Sprintf("%s-%d-%s.log", step, number, strings.ReplaceAll(c.dir, "/", "-"))))
	if err != nil {
		return 0, err
	}
	defer logs.Close()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = io.MultiWriter(writer(into), logs)
	r.printf("%s: %s\n", step, strings.Join(append(c.env, c.args...), " "))
	if err := cmd.Start(); err != nil {
		r.fail(step+": "+strings.Join(c.args, " "), err.Error())
		return 0, err
	}
	failed := 0
	if tests {
		failed = events(io.TeeReader(pipe, logs), r, step)
	} else {
		io.Copy(io.MultiWriter(logs, writer(into)), pipe) //nolint:errcheck // ends with the program, whose status counts
	}
	err = cmd.Wait()
	if err != nil && failed == 0 {
		r.fail(fmt.Sprintf("%s: %s: %v", step, strings.Join(c.args, " "), err), output.String())
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d tests were skipped", failed)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func logDir() string {
	dir := filepath.Join(".bin", "log")
	os.MkdirAll(dir, 0o755) //nolint:errcheck // the file in it says so
	return dir
}

// event is one of `go test -json` (go doc test2json), or of the build before it.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

// events reports each package and test, and returns how many failed. The output of a test that passes is dropped.
func events(in io.Reader, r *report, step string) int {
	failed := 0
	outputs, blamed := map[string]*strings.Builder{}, map[string]bool{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if e.Action == "build-output" {
				key = e.ImportPath
			}
			if outputs[key] == nil {
				outputs[key] = &strings.Builder{}
			}
			outputs[key].WriteString(e.Output)
		case "build-fail":
			failed++
			r.fail(step+": build of "+e.ImportPath, text(outputs, e.ImportPath))
		case "pass", "fail", "skip":
			if e.Test == "" {
				failed += endPackage(r, step, e, text(outputs, key), blamed[e.Package])
				break
			}
			r.test(step, short(e.Package), e.Test, e.Elapsed, e.Action == "pass")
			if e.Action != "pass" && !blamedBelow(blamed, e) {
				failed++
				blamed[e.Package], blamed[key] = true, true
				r.fail(fmt.Sprintf("%s: %s %s: %s", step, short(e.Package), e.Test, e.Action), text(outputs, key))
			}
			delete(outputs, key)
		}
	}
	return failed
}

// blamedBelow reports whether a test failed only by a subtest that is already reported.
func blamedBelow(blamed map[string]bool, e event) bool {
	for key := range blamed {
		if strings.HasPrefix(key, e.Package+" "+e.Test+"/") {
			return true
		}
	}
	return false
}

// endPackage reports a package as go test does, and a failure of it that no test explains: a panic, or an exit.
func endPackage(r *report, step string, e event, output string, explained bool) int {
	r.pkg(step, short(e.Package), e.Elapsed)
	switch {
	case e.Action == "fail":
		r.printf("FAIL\t%s\t%.3fs\n", e.Package, e.Elapsed)
		if !explained {
			r.fail(fmt.Sprintf("%s: %s", step, short(e.Package)), output)
			return 1
		}
	case e.Action == "pass" && strings.Contains(output, "(cached)"):
		r.printf("ok  \t%s\t(cached)\n", e.Package)
	case e.Action == "pass":
		r.printf("ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
	}
	return 0
}

func text(outputs map[string]*strings.Builder, key string) string {
	if outputs[key] == nil {
		return ""
	}
	return outputs[key].String()
}

func short(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, "github.com/gatehouse-id/gatehouse"), "/")
}
