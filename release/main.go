// Command release makes what people install, from the commit that is checked out: archives of the binary for each
// platform, packages for Debian, Red Hat and Alpine, an OCI image, bills of materials, a provenance statement, and the
// signed list of checksums. The same commit and version give the same bytes on every machine.
//
//	cd release && go run . -version v0.1.0 -key minisign.key
//
// It is a Go module of its own, so builds of Gatehouse are spared its dependencies. It needs git and the go
// command, and neither root nor Docker.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// platforms are those that a release is made for.
const platforms = "linux/amd64,linux/arm64,darwin/arm64,windows/amd64"

func main() {
	r := release{root: ".."}
	flag.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flag.StringVar(&r.out, "o", "../dist", "the directory of the results, which must be absent or empty")
	targets := flag.String("targets", platforms, "the platforms; the one of this machine is needed")
	key := flag.String("key", "", "the file of a minisign secret key, whose password is in MINISIGN_PASSWORD; without it nothing is signed")
	dirty := flag.Bool("dirty", false, "release files that are not committed, to try something")
	flag.Parse()
	r.targets = strings.Split(*targets, ",")
	if err := r.make(*key, *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// make builds the binaries and everything that is made from them.
func (r *release) make(key string, dirty bool) error {
	if err := r.check(); err != nil {
		return err
	}
	sign, err := readKey(key, os.Getenv("MINISIGN_PASSWORD"))
	if err != nil {
		return err
	}
	if err := r.readCommit(dirty); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "gatehouse-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binaries, err := r.build(work)
	if err != nil {
		return err
	}
	docs, err := r.documents(work, binaries)
	if err != nil {
		return err
	}
	return r.assemble(binaries, docs, sign)
}

// assemble makes all results from finished binaries.
func (r *release) assemble(binaries []binary, docs []file, sign signer) error {
	for _, b := range binaries {
		if err := r.archive(b, docs); err != nil {
			return fmt.Errorf("archive of %s: %w", b.target, err)
		}
		if b.os() != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm", "apk"} {
			if err := r.pack(b, docs, format); err != nil {
				return fmt.Errorf("%s of %s: %w", format, b.target, err)
			}
		}
	}
	if err := r.deployment(); err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	if err := r.image(binaries); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.state(); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	return r.sum(sign)
}

// path returns the path of a result.
func (r *release) path(name string) string { return filepath.Join(r.out, name) }
