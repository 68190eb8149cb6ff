// Command rooms measures the packages of the tree and the borders between them, for ADR 5. It prints two tables in
// Markdown: what each package holds and shows, and how many distinct names of each package another one uses.
//
// With -rev it measures a revision of the repository, which it takes out with git archive into a temporary directory.
// Arguments are directories: packages outside of them are left out as rows. Default: every package of the module.
// Packages of tests and modules of their own are left out.
package main

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	rev := flag.String("rev", "", "a revision to measure instead of the work tree")
	flag.Parse()
	if err := run(*rev, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

func run(rev string, below []string) error {
	dir := "."
	if rev != "" {
		temp, err := os.MkdirTemp("", "rooms")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		if err := checkOut(rev, temp); err != nil {
			return fmt.Errorf("revision %s: %w", rev, err)
		}
		dir = temp
	}
	t, err := load(dir)
	if err != nil {
		return err
	}
	_, err = io.WriteString(os.Stdout, t.report(below))
	return err
}

// checkOut writes the Go files of a revision into a directory.
func checkOut(rev, dir string) (err error) {
	cmd := exec.Command("git", "archive", "--format=tar", rev)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, out) // so that git can end after an error
		err = errors.Join(err, cmd.Wait())
	}()
	for in := tar.NewReader(out); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Base(h.Name)
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || name != "go.mod" && !strings.HasSuffix(name, ".go") {
			continue
		}
		to := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			return err
		}
	}
}
