package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Variant is a change of the source for one build, so the shipped program needs no switch for it.
type Variant struct {
	Dir     string // of the package, from the root of the tree
	Pattern string // regular expression that matches once in the package's sources
	Replace string
}

// Build compiles the program with the changes applied to the tree. root is the tree, out the binary.
func Build(root, out string, variants ...Variant) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	overlay := map[string]string{}
	for n, v := range variants {
		file, text, err := v.apply(root)
		if err != nil {
			return err
		}
		changed := fmt.Sprintf("%s.%d.go", out, n)
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return err
		}
		overlay[file] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".json", b, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", out+".json", "-o", out, "./cmd/gatehouse")
	cmd.Dir = root
	if os.Getenv("GOFLAGS") == "" {
		cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false -tags=nobadger,nomysql,nopgx -gcflags=all=-dwarf=false -ldflags=-s")
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build a variant: %w: %s", err, msg)
	}
	return nil
}

// apply returns the one file that matches and its changed text.
func (v Variant) apply(root string) (file, text string, err error) {
	re, err := regexp.Compile(v.Pattern)
	if err != nil {
		return "", "", err
	}
	names, err := filepath.Glob(filepath.Join(root, v.Dir, "*.go"))
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return "", "", err
		}
		if n := len(re.FindAllIndex(b, -1)); n == 0 {
			continue
		} else if n > 1 || file != "" {
			return "", "", fmt.Errorf("%q matches more than once in %s: the variant is ambiguous", v.Pattern, v.Dir)
		}
		file, text = name, re.ReplaceAllString(string(b), v.Replace)
	}
	if file == "" {
		return "", "", fmt.Errorf("%q matches nothing in %s: fix the variant", v.Pattern, v.Dir)
	}
	return file, text, nil
}
