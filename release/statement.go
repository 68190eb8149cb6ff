package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
)

const (
	sumsFile   = "SHA256SUMS"
	repository = "git+https://github.com/gatehouse-id/gatehouse"
)

// statement says from what the results were made and how: an in-toto statement with a SLSA provenance predicate,
// https://slsa.dev/spec/v1.0/provenance. It names no machine and no time but that of the commit, so it is reproducible.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]any    `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// state writes the provenance statement about all results so far.
func (r *release) state() error {
	results, err := r.results()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, f := range results {
		s.Subject = append(s.Subject, resource{Name: f.name, Digest: map[string]string{"sha256": f.sum}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = "https://github.com/gatehouse-id/gatehouse/blob/main/docs/versions.md#make-release"
	d.ExternalParameters = map[string]any{"version": r.version, "targets": r.targets}
	d.InternalParameters = map[string]string{"go": toolchain}
	d.ResolvedDependencies = []resource{{URI: repository + "@" + r.commit, Digest: map[string]string{"gitCommit": r.commit}}}
	for _, name := range []string{"go.sum", "release/go.sum"} {
		sum, err := sumOf(r.root + "/" + name)
		if err != nil {
			return err
		}
		d.ResolvedDependencies = append(d.ResolvedDependencies, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	s.Predicate.RunDetails.Builder.ID = "https://github.com/gatehouse-id/gatehouse/blob/main/release/main.go"
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(fmt.Sprintf("gatehouse_%s.intoto.json", r.plain())), append(raw, '\n'), 0o644) //nolint:gosec // to download
}

type result struct{ name, sum string }

// results lists the results so far with their SHA-256, by name.
func (r *release) results() (list []result, err error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sum, err := sumOf(r.path(e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, result{e.Name(), sum})
	}
	return list, nil
}

func sumOf(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// sum writes the list of checksums, as sha256sum reads it, and its signature.
func (r *release) sum(sign signer) error {
	results, err := r.results()
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, f := range results {
		fmt.Fprintf(&list, "%s  %s\n", f.sum, f.name)
	}
	if err := os.WriteFile(r.path(sumsFile), list.Bytes(), 0o644); err != nil { //nolint:gosec // to download
		return err
	}
	if sign == nil {
		fmt.Println("not signed: no -key")
		return nil
	}
	comment := fmt.Sprintf("gatehouse %s, commit %s", r.version, r.commit)
	return os.WriteFile(r.path(sumsFile+".minisig"), sign(list.Bytes(), comment), 0o644) //nolint:gosec // to download
}

// signer returns the minisign signature of a message with a comment that is signed too.
type signer func(message []byte, comment string) []byte

// readKey reads a secret key of minisign; without a name there is no signer.
func readKey(name, password string) (signer, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no signer is an answer
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(raw) {
		if password == "" {
			return nil, errors.New("the key has a password: set MINISIGN_PASSWORD")
		}
		key, err = minisign.DecryptKey(password, raw)
	} else {
		err = key.UnmarshalText(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "minisign: "))
	}
	return func(message []byte, comment string) []byte {
		return minisign.SignWithComments(key, message, comment, "signature of "+sumsFile)
	}, nil
}
