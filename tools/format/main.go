// Command format rewrites the Go files of the tree as gofumpt and gci have them, and prints the names of those that it
// changed. With -d it changes nothing, and its status is 1 if a file is not formatted.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	gciconfig "github.com/daixiang0/gci/pkg/config"
	"github.com/daixiang0/gci/pkg/gci"
	"github.com/daixiang0/gci/pkg/log"
	"mvdan.cc/gofumpt/format"
)

const module = "github.com/gatehouse-id"

func main() {
	dry := flag.Bool("d", false, "name the files that are not formatted, and change none")
	flag.Parse()
	changed, err := run(*dry)
	for _, name := range changed {
		fmt.Println(name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "format:", err)
	}
	if err != nil || *dry && len(changed) > 0 {
		os.Exit(1)
	}
}

func run(dry bool) ([]string, error) {
	log.InitLogger()
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	imports, err := gciconfig.YamlConfig{SectionStrings: []string{"standard", "default", "prefix(" + module + ")"}}.Parse()
	if err != nil {
		return nil, err
	}
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex // guards changed and failed
		changed []string
		failed  error
		places  = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			differs, err := one(name, *imports, dry)
			mu.Lock()
			defer mu.Unlock()
			if differs {
				changed = append(changed, name)
			}
			if err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	wait.Wait()
	return changed, failed
}

// one formats a file and reports whether it differed. A file that git lists and that was removed is left out.
func one(name string, imports gciconfig.Config, dry bool) (bool, error) {
	src, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, sorted, err := gci.LoadFormat(src, name, imports)
	if err != nil {
		return false, err
	}
	out, err := format.Source(sorted, format.Options{LangVersion: "go1.26", ModulePath: module + "/gatehouse"})
	if err != nil || bytes.Equal(src, out) {
		return false, err
	}
	if dry {
		return true, nil
	}
	return true, os.WriteFile(name, out, 0o644)
}
