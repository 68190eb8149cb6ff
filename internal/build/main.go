// Command build makes a Caddy of the standard modules and the plugins that xcaddy.json names, as xcaddy does: it writes
// a main package into a temporary module that requires them all. The file is the JSON form of xcaddy's Builder, so
// xcaddy's users can read it.
//
// It copies this tree's go.sum, so a machine with a filled module cache needs no network.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

// builder is the part of xcaddy.Builder that is used here.
type builder struct {
	CaddyVersion string        `json:"caddy_version"`
	Plugins      []plugin      `json:"plugins"`
	Replacements []replacement `json:"replacements"`
	BuildFlags   string        `json:"build_flags"`
}

type plugin struct {
	Package string `json:"module_path"`
	Version string `json:"version"`
}

type replacement struct {
	Old string `json:"old"`
	New string `json:"new"` // a relative path is relative to the file
}

const caddyModule = "github.com/caddyserver/caddy/v2"

var modFile = template.Must(template.New("go.mod").Parse(`module caddy

go {{.Go}}

require (
	{{.Caddy}} {{.B.CaddyVersion}}
{{- range .B.Plugins}}
	{{.Package}} {{.Version}}
{{- end}}
)
{{range .B.Replacements}}
replace {{.Old}} => {{.New}}
{{- end}}
`))

var mainFile = template.Must(template.New("main.go").Parse(`package main

import (
	caddycmd "{{.Caddy}}/cmd"

	_ "{{.Caddy}}/modules/standard"
{{- range .B.Plugins}}
	_ "{{.Package}}"
{{- end}}
)

func main() {
	caddycmd.Main()
}
`))

func main() {
	out := flag.String("o", "bin/gatehouse", "where the binary goes")
	file := flag.String("f", "xcaddy.json", "what to build")
	guide := flag.String("pgo", "", "a processor profile that guides the compiler; none by default")
	list := flag.String("sbom", "", "where the bill of materials goes (CycloneDX); none by default")
	version := flag.String("release", "", "the version of a release, such as v0.1.0: replaced plugins have it")
	flag.Parse()
	err := build(*file, *out, *guide, *version)
	if err == nil && *list != "" {
		err = writeBOM(*out, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build builds what file names into out, guided by a profile unless that is "", as the release version unless that is
// "". It removes the temporary module afterwards. The bytes do not depend on the directories.
func build(file, out, guide, version string) error {
	b, err := read(file)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gatehouse-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := b.link(dir, root, version); err != nil {
		return err
	}
	if err := lay(dir, root, b); err != nil {
		return err
	}
	args := append([]string{"build", "-mod=mod"}, strings.Fields(b.BuildFlags)...)
	if guide != "" {
		if guide, err = filepath.Abs(guide); err != nil {
			return err
		}
		args = append(args, "-pgo="+guide)
	}
	return run(dir, append(args, "-o", out, ".")...)
}

// read reads an xcaddy.json.
func read(file string) (*builder, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var b builder
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // a setting without effect would mislead
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &b, nil
}

// link makes the replacements relative to dir, by links to their directories: go records a replacement in the binary as
// go.mod spells it, and the bytes of a release must not name a directory of this machine. It gives the plugins that
// are replaced the version of the release.
func (b *builder) link(dir, root, version string) error {
	for i, r := range b.Replacements {
		if !strings.HasPrefix(r.New, ".") {
			continue
		}
		name := fmt.Sprintf("replaced%d", i)
		if err := os.Symlink(filepath.Join(root, r.New), filepath.Join(dir, name)); err != nil {
			return err
		}
		b.Replacements[i].New = "./" + name
		for j := range b.Plugins {
			if version != "" && b.Plugins[j].Package == r.Old {
				b.Plugins[j].Version = version
			}
		}
	}
	return nil
}

// lay writes the temporary module into dir.
func lay(dir, root string, b *builder) error {
	version, err := goVersion(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	data := map[string]any{"Go": version, "Caddy": caddyModule, "B": b}
	for name, t := range map[string]*template.Template{"go.mod": modFile, "main.go": mainFile} {
		var text bytes.Buffer
		if err := t.Execute(&text, data); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600)
}

// goVersion reads the Go version from a go.mod.
func goVersion(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "go "); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("%s: no go line", file)
}

// run runs the go command in dir, outside any workspace and with the given flags only.
func run(dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "PWD="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}
