package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is a version of a commit.
type release struct {
	root, out, version string
	targets            []string
	commit             string
	time               time.Time // of the commit: the time of every file in the results
}

// binary is Caddy with Gatehouse for one platform.
type binary struct{ target, path, bom string }

func (b binary) os() string   { return b.target[:strings.Index(b.target, "/")] }
func (b binary) arch() string { return b.target[strings.Index(b.target, "/")+1:] }

// file is a file of the results, named by its path in archives.
type file struct {
	name, path string
	program    bool
}

// toolchain compiles releases, whichever the go command is: another one makes other bytes.
const toolchain = "go1.26.8"

var (
	semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	platform = regexp.MustCompile(`^(linux|darwin|windows)/(amd64|arm64)$`)
)

// check refuses what could not become a release, before anything is built.
func (r *release) check() error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("-version %q is not a semantic version such as v0.1.0", r.version)
	}
	for i, t := range r.targets {
		if !platform.MatchString(t) || slices.Contains(r.targets[:i], t) {
			return fmt.Errorf("-targets: %q is unknown or there twice", t)
		}
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; !slices.Contains(r.targets, here) {
		return fmt.Errorf("-targets lacks %s: the manual pages come from a binary that runs here", here)
	}
	old, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old) > 0 {
		return fmt.Errorf("%s is not empty: a release has no files of another one", r.out)
	}
	return os.MkdirAll(r.out, 0o755)
}

// plain is the version without its v, as packages spell it.
func (r *release) plain() string { return strings.TrimPrefix(r.version, "v") }

// readCommit reads which commit is checked out, and its time.
func (r *release) readCommit(dirty bool) error {
	changed, err := output(r.root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" && !dirty {
		return fmt.Errorf("files are not committed:\n%s", changed)
	}
	head, err := output(r.root, nil, "git", "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.time = commit, time.Unix(at, 0).UTC()
	return nil
}

// build compiles the binary of each target, with its bill of materials.
func (r *release) build(work string) (list []binary, err error) {
	tool := filepath.Join(work, "build")
	if _, err := output(r.root, nil, "go", "build", "-o", tool, "./internal/build"); err != nil {
		return nil, err
	}
	for _, t := range r.targets {
		b := binary{target: t, path: filepath.Join(work, strings.ReplaceAll(t, "/", "_"))}
		b.bom = r.path(fmt.Sprintf("gatehouse_%s_%s_%s.cdx.json", r.plain(), b.os(), b.arch()))
		bom, err := filepath.Abs(b.bom)
		if err != nil {
			return nil, err
		}
		fmt.Println("build", t)
		env := []string{"CGO_ENABLED=0", "GOOS=" + b.os(), "GOARCH=" + b.arch(), "GOAMD64=v1", "GOARM64=v8.0", "GOGC=400"}
		args := []string{"-release", r.version, "-pgo", "internal/build/gatehouse.pgo", "-o", b.path, "-sbom", bom}
		if _, err := output(r.root, env, tool, args...); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// shells are those for which cobra completes commands, with the place of the file in packages.
var shells = map[string]string{
	"bash":       "usr/share/bash-completion/completions/caddy",
	"zsh":        "usr/share/zsh/vendor-completions/_caddy",
	"fish":       "usr/share/fish/vendor_completions.d/caddy.fish",
	"powershell": "",
}

// documents returns what is next to the binary in an archive. The manual pages and completions are made by the binary
// for this machine.
func (r *release) documents(work string, binaries []binary) ([]file, error) {
	var here string
	for _, b := range binaries {
		if b.target == runtime.GOOS+"/"+runtime.GOARCH {
			here = b.path
		}
	}
	env := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10), "HOME=" + work}
	man := filepath.Join(work, "man")
	if _, err := output(work, env, here, "manpage", "--directory", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(man + "/*.8")
	if err != nil || len(pages) == 0 {
		return nil, fmt.Errorf("%d manual pages, %w", len(pages), err)
	}
	list := r.texts()
	for _, p := range pages {
		list = append(list, file{name: "man/" + filepath.Base(p), path: p})
	}
	for shell := range shells {
		text, err := output(work, env, here, "completion", shell)
		if err != nil {
			return nil, err
		}
		p := filepath.Join(work, "caddy."+shell)
		if err := os.WriteFile(p, []byte(text+"\n"), 0o600); err != nil {
			return nil, err
		}
		list = append(list, file{name: "completions/caddy." + shell, path: p})
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// texts are the documents of the tree that go along.
func (r *release) texts() (list []file) {
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		list = append(list, file{name: name, path: filepath.Join(r.root, name)})
	}
	return list
}

// output runs a program and returns what it prints, without the last newline.
func output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(append(os.Environ(), "GOTOOLCHAIN="+toolchain), env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
