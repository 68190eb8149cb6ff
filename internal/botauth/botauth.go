// Package botauth knows robots by their signatures: a request that is signed (RFC 9421) by a key in the directory of
// the robot's domain is from that robot. It is the profile Web Bot Auth, draft-meunier-webbotauth-httpsig-protocol-00
// and draft-meunier-http-message-signatures-directory-05. A User-Agent is no identity and counts for nothing.
package botauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/gatehouse-id/gatehouse/internal/doccache"
)

const (
	tag = "web-bot-auth"
	// maxLife bounds how long a signature can be valid, skew the difference of the clocks.
	maxLife = 24 * time.Hour
	skew    = 30 * time.Second
)

// Errors of Agent. Others say what is wrong with a signature.
var (
	ErrUnsigned = errors.New("the request is not signed by a robot")
	errReplayed = errors.New("the signature has been used before")
	errFull     = errors.New("too many signatures of this domain, or of all that no rule names, are valid at the same time")
	errTime     = errors.New("the signature has ended, is not valid yet, or is valid for more than a day")
	errCovers   = errors.New("the signature does not cover the host and the Signature-Agent of the request")
	errAgent    = errors.New("the Signature-Agent of the request is not the https address of a host")
	errUnwanted = errors.New("no rule names the domain of the robot")
)

// Interest reports whether the robots of a domain are of interest, and whether a rule names the domain. The directories
// of others are not fetched.
type Interest func(domain string) (wanted, named bool)

// Verifier verifies robots. It is safe for concurrent use.
type Verifier struct {
	directories
	once
	now func() time.Time
}

// New returns a verifier, which knows no robot until Fetch is called.
func New(now func() time.Time) *Verifier {
	return &Verifier{
		directories: directories{now: now, kept: doccache.New[map[string]robotKey](maxDomains, now)},
		once:        once{used: map[[sha256.Size]byte]bool{}, share: map[signer]int{}},
		now:         now,
	}
}

// Fetch sets the client that fetches directories, until it is released or another one is set. It must refuse addresses
// that are not public.
func (v *Verifier) Fetch(client *http.Client) (release func()) { return v.client.Use(client) }

// Agent returns the domain of the robot that has signed a request, such as bot.example. The request must be as it was
// received. from is the address of the client, which bounds what it can have fetched. A signature counts once.
func (v *Verifier) Agent(ctx context.Context, r *http.Request, from string, wants Interest) (domain string, err error) {
	if len(r.Header["Signature-Input"]) == 0 || len(r.Header["Signature-Agent"]) == 0 {
		return "", ErrUnsigned
	}
	list, err := signaturesOf(r, tag)
	if err != nil {
		return "", err
	}
	err = ErrUnsigned
	for i := range list {
		if domain, err = v.check(ctx, r, &list[i], from, wants); err == nil {
			return domain, nil
		}
	}
	return "", err
}

func (v *Verifier) check(ctx context.Context, r *http.Request, s *signature, from string, wants Interest) (string, error) {
	domain, member, err := agentOf(r, s)
	if err != nil {
		return "", err
	}
	if !s.covers("@authority", "") && !s.covers("@target-uri", "") || !s.covers("signature-agent", member) {
		return "", errCovers
	}
	p, now := s.covered.Params, v.now()
	created, hasCreated := seconds(p, "created")
	expires, hasExpires := seconds(p, "expires")
	if !hasCreated || !hasExpires || created.After(now.Add(skew)) || !expires.After(now) || expires.Sub(created) > maxLife {
		return "", errTime
	}
	wanted, named := wants(domain)
	if !wanted {
		return "", errUnwanted
	}
	base, err := s.base(r)
	if err != nil {
		return "", err
	}
	key, err := v.key(ctx, domain, text(p, "keyid"), from)
	if err != nil {
		return "", err
	}
	if err := verify(key, text(p, "alg"), base, s.value); err != nil {
		return "", err
	}
	return domain, v.spend(base, signer{registered(domain), named}, expires, now)
}

// agentOf returns the domain in the Signature-Agent of a request, and the member of the dictionary that has it. An
// earlier draft had one text in place of a dictionary.
func agentOf(r *http.Request, s *signature) (domain, member string, err error) {
	values := r.Header["Signature-Agent"]
	var item httpsfv.Item
	if dict, err := httpsfv.UnmarshalDictionary(values); err == nil {
		m, _ := dict.Get(s.label)
		found, ok := m.(httpsfv.Item)
		if !ok {
			return "", "", errAgent
		}
		item, member = found, s.label
	} else if item, err = httpsfv.UnmarshalItem(values); err != nil {
		return "", "", errAgent
	}
	address, _ := item.Value.(string)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return "", "", errAgent
	}
	return strings.ToLower(u.Host), member, nil
}
