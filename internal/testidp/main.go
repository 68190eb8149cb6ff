// Command testidp runs the test doubles of the providers that presets know, for tests in a real browser. They are those
// of the Go tests, with a page in front on which a person chooses an identity, and continues or goes back.
//
// When it is ready it prints one line of JSON: what the operator of Gatehouse gets from each provider, and the key
// pairs that Gatehouse needs there. Then it reads lines with the issuer of the Gatehouse that people come from,
// {"issuer":"http://localhost:8080"}, connects it as those providers do, and answers each with the same line. It ends
// with its standard input.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "standins:", err)
		os.Exit(1)
	}
}

// line is one line of the output.
type line struct {
	// Providers are the values that an operator copies from the pages of each provider, such as its address and a
	// client id.
	Providers map[string]map[string]string `json:"providers"`
	// Keys are key pairs for the configuration API of Gatehouse.
	Keys []keyPair `json:"keys"`
}

// account is one line of the input.
type account struct {
	Issuer string `json:"issuer"`
}

func serve(in io.Reader, out io.Writer) error {
	p := &people{}
	all, keys, err := start(p)
	if err != nil {
		return err
	}
	said := line{Providers: map[string]map[string]string{}, Keys: keys}
	for _, s := range all {
		said.Providers[s.id] = s.told
	}
	w := json.NewEncoder(out)
	if err := w.Encode(said); err != nil {
		return err
	}
	for r := json.NewDecoder(in); ; {
		var k account
		if err := r.Decode(&k); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		p.from(k.Issuer)
		for _, s := range all {
			if s.connect == nil {
				continue
			}
			if err := s.connect(k.Issuer); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
		if err := w.Encode(k); err != nil {
			return err
		}
	}
}

// people are those who come from a Gatehouse.
type people struct {
	mu     sync.Mutex // guards issuer
	issuer string
}

func (p *people) from(issuer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.issuer = issuer
}

// origin is the issuer of the Gatehouse where people come from.
func (p *people) origin() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.issuer
}

// standIn is one provider.
type standIn struct {
	id   string
	told map[string]string
	// connect makes an issuer known. nil: the provider needs to know nothing but its redirect URI.
	connect func(issuer string) error
}

// harness is the part of a test that stand-ins use: an error ends the program.
type harness struct{ testing.TB }

func (harness) Helper()        {}
func (harness) Cleanup(func()) {}

func (harness) Error(args ...any)            { fail(fmt.Sprint(args...)) }
func (harness) Fatal(args ...any)            { fail(fmt.Sprint(args...)) }
func (harness) Fatalf(f string, args ...any) { fail(fmt.Sprintf(f, args...)) }

func fail(why string) {
	fmt.Fprintln(os.Stderr, "standins:", why)
	os.Exit(1)
}
