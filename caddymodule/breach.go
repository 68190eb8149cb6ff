package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/breach"
)

// What happens to a password when it cannot be checked against known breaches.
const (
	breachOpen   = "open"
	breachClosed = "closed"
)

// Breach says where passwords are looked up that are known from breaches, if the policy wants that
// (breached_password_blocked).
type Breach struct {
	// The service that is asked, by the first five digits of the SHA-1 hash, which are added to this URL. Default: the
	// one of haveibeenpwned.com, unless there is a file.
	URL string `json:"url,omitempty"`
	// A file that is asked first: SHA-1 hashes in order, each perhaps with a colon and a count, or passwords, one a
	// line. Default: none.
	File string `json:"file,omitempty"`
	// How long the service may take. Default: 1s.
	Timeout options.Duration `json:"timeout,omitempty"`
	// What happens to a password when the service does not answer: open accepts it, closed refuses it until the service
	// answers. Default: open.
	OnFailure string `json:"on_failure,omitempty"`
}

// readBlock reads
//
//	breach {
//		url        <url>
//		file       <file>
//		timeout    <duration>
//		on_failure open|closed
//	}
func (b *Breach) readBlock(d *caddyfile.Dispenser) error {
	return options.Block(&reference.Breach, options.Subdirectives{
		"url":        options.Value(&b.URL, breach.CheckURL),
		"file":       options.Value(&b.File, nil),
		"timeout":    options.Value(&b.Timeout, options.CheckDuration),
		"on_failure": options.Value(&b.OnFailure, options.OneOf(breachOpen, breachClosed)),
	})(d)
}

func (b *Breach) build(r *options.Resolver) breach.Config {
	c := breach.Config{
		URL: r.Plain("identity: breach url", b.URL, breach.CheckURL), File: r.Plain("identity: breach file", b.File, nil),
		Timeout: r.Duration("identity: breach timeout", b.Timeout),
		Closed:  r.Plain("identity: breach on_failure", b.OnFailure, options.OneOf(breachOpen, breachClosed)) == breachClosed,
	}
	if c.File != "" { // it is opened again when the configuration starts
		if checker, err := breach.New(c, nil); err != nil {
			r.Fail("identity: breach file: %s: write the path of the file, or remove the option", strings.TrimPrefix(err.Error(), "breach: file: "))
		} else {
			r.AddError(checker.Close())
		}
	}
	return c
}
