package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/pwned"
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
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`
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
	return caddyfileutil.Block(&reference.Breach, caddyfileutil.Subdirectives{
		"url":        caddyfileutil.Value(&b.URL, pwned.CheckURL),
		"file":       caddyfileutil.Value(&b.File, nil),
		"timeout":    caddyfileutil.Value(&b.Timeout, caddyfileutil.CheckDuration),
		"on_failure": caddyfileutil.Value(&b.OnFailure, caddyfileutil.OneOf(breachOpen, breachClosed)),
	})(d)
}

func (b *Breach) build(r *caddyfileutil.Resolver) pwned.Config {
	c := pwned.Config{
		URL: r.Plain("identity: breach url", b.URL, pwned.CheckURL), File: r.Plain("identity: breach file", b.File, nil),
		Timeout: r.Duration("identity: breach timeout", b.Timeout),
		Closed:  r.Plain("identity: breach on_failure", b.OnFailure, caddyfileutil.OneOf(breachOpen, breachClosed)) == breachClosed,
	}
	if c.File != "" { // it is opened again when the configuration starts
		checker, err := pwned.New(c, nil)
		if r.AddError(err); err != nil {
			return c
		}
		if fault := checker.Fault(); fault != nil {
			verdict := "accepted without being looked up there"
			if c.Closed {
				verdict = "refused"
			}
			r.Lack(caddyfileutil.Fault{
				Option: "identity: breach file", Reason: fmt.Sprintf("identity: breach file: %v: new passwords are %s", fault, verdict),
				Fix: "write the path of the file, or remove the option",
			})
		}
		r.AddError(checker.Close())
	}
	return c
}
