// Package saml signs people in at SAML 2.0 identity providers. Gatehouse is the service provider.
//
// Responses are read by a narrow parser (package safexml) and verified in verify.go and the files that it calls, which
// return verified values; nothing else is read. Messages that we send and the metadata of both sides are the schema
// types of crewjam/saml (request.go, logout.go, artifact.go, spmetadata.go, idpmetadata.go), which decrypts too
// (decrypt.go). Package safexml checks the provider's metadata before the library sees it (decode.go), and refresh.go
// keeps it current. The reasons are in docs/adr/0010-saml-library-0.6.md.
package saml

import (
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// timeout is the longest duration of Begin, Finish and End.
const timeout = 5 * time.Second

// maxRedirect is the longest redirect address. For longer ones we use a form if the provider accepts POST.
const maxRedirect = 8 << 10

// Provider signs people in at a SAML identity provider. It implements idp.Redirector, idp.Ender, idp.Handler,
// idp.Checker, idp.KeyChecker and idp.Closer.
type Provider struct {
	cfg      Config
	env      idp.Env
	mapping  *idp.WatchedMapping
	entityID string  // our own
	scheme   *scheme // nil: none
	verifier *verifier
	metadata *source
}

var (
	_ idp.Redirector = (*Provider)(nil)
	_ idp.Ender      = (*Provider)(nil)
	_ idp.Handler    = (*Provider)(nil)
	_ idp.Checker    = (*Provider)(nil)
	_ idp.Closer     = (*Provider)(nil)
	_ idp.KeyChecker = (*Provider)(nil)
	_ idp.Warner     = (*Provider)(nil)
)

// New returns a provider, or an error that explains what is wrong with the configuration. It opens no connection:
// remote metadata is fetched in the background until Close.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, env: env, mapping: idp.Watch(cfg.Mapping)}
	p.entityID = cmp.Or(cfg.EntityID, p.at("metadata"))
	p.scheme = schemes[cfg.Scheme]
	p.verifier = &verifier{entityID: p.entityID, now: env.Now, once: env.Once, keys: p.decrypters, pause: pause}
	var err error
	if p.metadata, err = newSource(cfg, env); err != nil {
		return nil, err
	}
	return p, nil
}

// Unseen implements idp.Watcher.
func (p *Provider) Unseen() []idp.Warning { return p.mapping.Unseen() }

// Close implements idp.Closer.
func (p *Provider) Close() error { p.metadata.close(); return nil }

// Parameters implements idp.Provider.
func (*Provider) Parameters() []string { return nil }

// CheckKeys implements idp.KeyChecker.
func (p *Provider) CheckKeys(ctx context.Context) error {
	for _, name := range slices.Concat(p.cfg.Sign, p.cfg.Decrypt) {
		key, err := p.env.KeyPair(ctx, name)
		if err == nil {
			err = checkSigner(key)
		}
		if err != nil {
			return err
		}
	}
	if p.cfg.ClientKey != "" {
		if _, err := p.clientKey(ctx); err != nil {
			return err
		}
	}
	if p.cfg.ServerCertificate != "" {
		if _, err := p.env.Certificate(ctx, p.cfg.ServerCertificate); err != nil {
			return err
		}
	}
	return nil
}

// at returns the address of one of our endpoints.
func (p *Provider) at(op string) string { return p.env.Issuer + "/saml/" + p.env.ID + "/" + op }

// flow is the state that Begin stores for Finish.
type flow struct {
	ID      string    `json:"id"`                // of the AuthnRequest
	Idp     string    `json:"idp"`               // the provider that it was sent to
	Since   time.Time `json:"since,omitzero"`    // the sign-in must not be earlier
	Classes []string  `json:"classes,omitempty"` // the answer must have one of them
}

// Begin implements idp.Redirector.
func (p *Provider) Begin(ctx context.Context, q idp.Request) (*idp.Next, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if p.scheme != nil && q.Passive {
		return nil, &idp.Rejection{Reason: "the scheme signs no one in without a page", Passive: true}
	}
	m, err := p.metadata.get(ctx)
	if err != nil {
		return nil, err
	}
	key, err := p.signer(ctx)
	if err != nil {
		return nil, err
	}
	id, err := newID(p.env.Random)
	if err != nil {
		return nil, err
	}
	asked, accepted := p.context(q.Level)
	req := authnRequest{
		ID: id, Issuer: p.entityID, ACS: p.at("acs"), Binding: bindingPost, ProviderName: p.cfg.ProviderName, NameID: p.cfg.format(),
		Now: p.env.Now(), Passive: q.Passive, Context: asked, Custom: q.Custom,
		// SAML cannot express a maximum age, so the person has to sign in again.
		Force: q.Force || q.MaxAge >= 0,
	}
	if p.byArtifact(m) {
		req.Binding = bindingArtifact
	}
	if p.scheme != nil {
		req.Bare, req.ByIndex, req.Via, req.Custom = true, p.scheme.byIndex, p.cfg.Via, nil
	}
	if req.ProviderName == "" {
		req.ProviderName = q.ProviderName
	}
	next, err := p.send(m, req, q.Flow, key)
	if err != nil {
		return nil, err
	}
	state := flow{ID: id, Idp: m.EntityID, Classes: accepted}
	if req.Force {
		state.Since = req.Now
	}
	next.State, err = json.Marshal(state)
	return next, err
}

// send uses the redirect binding, which needs no page, unless the address would be too long.
func (p *Provider) send(m *idpMetadata, req authnRequest, relay string, key *idp.Key) (*idp.Next, error) {
	to, form := m.SSO[bindingRedirect], m.SSO[bindingPost]
	if to == "" && form == "" {
		return nil, errNoEndpoint
	}
	if to != "" {
		if err := validEndpoint(to); err != nil {
			return nil, err
		}
		req.Destination = to
		doc, err := write(req.element())
		if err != nil {
			return nil, err
		}
		u, err := redirectURL(p.env.Random, to, paramRequest, doc, relay, key)
		if err != nil || len(u) <= maxRedirect || form == "" {
			return &idp.Next{URL: u}, err
		}
	}
	req.Destination = form
	e := req.element()
	if err := sign(e, key); err != nil {
		return nil, err
	}
	doc, err := write(e)
	if err != nil {
		return nil, err
	}
	return post(form, paramRequest, doc, relay)
}

// byArtifact reports whether to request the answer by artifact: the configuration or the scheme requires it, or the
// provider of a scheme has a service for it.
func (p *Provider) byArtifact(m *idpMetadata) bool {
	return p.cfg.Artifact || p.scheme != nil && (p.scheme.artifact || len(m.ARS) > 0)
}

// context returns the class of sign-in to request, and the classes that an answer can have. Empty: any.
func (p *Provider) context(level int) (asked *AuthnContext, accepted []string) {
	if p.scheme != nil {
		return p.scheme.ask(p.cfg.Assurance, level)
	}
	if asked = p.contextFor(level); asked != nil && asked.Comparison == "exact" {
		accepted = asked.Classes
	}
	return asked, accepted
}

func (p *Provider) contextFor(level int) *AuthnContext {
	if p.cfg.AuthnContext != nil || level <= lowest {
		return p.cfg.AuthnContext
	}
	var classes []string
	for class, n := range p.cfg.Levels {
		if n >= level {
			classes = append(classes, class)
		}
	}
	if len(classes) == 0 {
		return nil
	}
	// The lowest sufficient class comes first, since classes are listed in order of preference. (SAML core 3.3.2.2.1)
	slices.SortFunc(classes, func(a, b string) int {
		if p.cfg.Levels[a] != p.cfg.Levels[b] {
			return p.cfg.Levels[a] - p.cfg.Levels[b]
		}
		return strings.Compare(a, b)
	})
	return &AuthnContext{Comparison: "exact", Classes: classes}
}

// signer returns the key pair that signs our messages.
func (p *Provider) signer(ctx context.Context) (*idp.Key, error) {
	key, err := p.env.KeyPair(ctx, names(p.cfg.Sign)[0])
	if err == nil {
		err = checkSigner(key)
	}
	return key, err
}

func (p *Provider) decrypters(ctx context.Context) ([]*rsa.PrivateKey, error) {
	var keys []*rsa.PrivateKey
	for _, name := range names(p.cfg.Decrypt) {
		pair, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, key := range pair.All() {
			d, ok := key.Signer.(*rsa.PrivateKey)
			if !ok {
				return nil, fmt.Errorf("the key pair %q cannot decrypt", name)
			}
			keys = append(keys, d)
		}
	}
	return keys, nil
}

// FlowOf implements idp.Redirector. A RelayState that cannot be ours belongs to the provider and comes with an
// unsolicited answer.
func (p *Provider) FlowOf(r *http.Request) (string, error) {
	form, err := answer(r)
	if err != nil {
		return "", err
	}
	switch relay := form[paramRelay]; {
	case len(relay) == 0:
		return "", nil
	case len(relay) > 1:
		return "", &idp.Invalid{Reason: "the RelayState occurs more than once"}
	case !isFlow(relay[0]):
		return "", nil
	default:
		return relay[0], nil
	}
}

// isFlow reports whether s has the form of idp.Request.Flow.
func isFlow(s string) bool {
	return len(s) == idp.FlowLength && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// answer returns the parameters of a callback: the form of a POST, or the query of a GET with an artifact. They are
// never merged.
func answer(r *http.Request) (url.Values, error) {
	if err := r.ParseForm(); err != nil {
		return nil, &idp.Invalid{Reason: "the form cannot be read"}
	}
	if r.Method == http.MethodPost {
		return r.PostForm, nil
	}
	return r.URL.Query(), nil
}

// Finish implements idp.Redirector.
func (p *Provider) Finish(ctx context.Context, state []byte, r *http.Request) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	want := expectation{Destination: p.at("acs")}
	if state == nil {
		if !p.cfg.AllowUnsolicited {
			return nil, &idp.Invalid{Reason: "the answer is unsolicited"}
		}
		if p.cfg.AuthnContext != nil && p.cfg.AuthnContext.Comparison == "exact" {
			want.Classes = p.cfg.AuthnContext.Classes
		}
	}
	var m *idpMetadata
	var err error
	if m, err = p.metadata.get(ctx); err != nil {
		return nil, err
	}
	if state != nil {
		var f flow
		if err := json.Unmarshal(state, &f); err != nil {
			return nil, fmt.Errorf("state of the flow: %w", err)
		}
		if f.ID == "" || f.Idp != m.EntityID {
			return nil, &idp.Invalid{Reason: "the sign-in was begun at another provider"}
		}
		want.Request, want.Since, want.Classes = f.ID, f.Since, f.Classes
	}
	form, err := answer(r)
	if err != nil {
		return nil, err
	}
	read, err := p.reader(ctx, m, r.Method, form)
	if err != nil {
		return nil, err
	}
	var v *verified
	_, err = p.metadata.try(ctx, m, func(m *idpMetadata) (err error) {
		want.Provider = m
		v, err = read(ctx, want)
		return err
	})
	if errors.Is(err, errClass) { // the answer is genuine, but not sufficient
		err = &idp.Rejection{Reason: "the person signed in there with a class other than the demanded one"}
	}
	if rejection := new(idp.Rejection); p.scheme != nil && errors.As(err, &rejection) {
		rejection.Cancelled = rejection.SAMLStatus == codeAuthnFailed
	}
	if err != nil {
		return nil, err
	}
	return p.identity(v)
}

// reader returns a function that reads the answer. The answer is in the form itself, or is fetched with the artifact in
// the form.
func (p *Provider) reader(ctx context.Context, m *idpMetadata, method string,
	form url.Values,
) (func(context.Context, expectation) (*verified, error), error) {
	answers, artifacts := form[paramResponse], form[paramArtifact]
	switch {
	case len(answers)+len(artifacts) != 1:
		return nil, &idp.Invalid{Reason: "there is no answer, or more than one"}
	case len(artifacts) == 1:
		id, raw, err := p.resolve(ctx, m, artifacts[0])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, want expectation) (*verified, error) {
			return p.verifier.artifactResponse(ctx, raw, id, want)
		}, nil
	case p.scheme != nil && p.scheme.artifact:
		return nil, &idp.Invalid{Reason: "the browser delivers the answer itself, but the scheme requires an artifact"}
	case method != http.MethodPost: // SAML profiles 4.1.2 forbids answers by the redirect binding
		return nil, &idp.Invalid{Reason: "the answer is in the query of the address"}
	}
	raw, err := decodeBase64(answers[0])
	if err != nil {
		return nil, &idp.Invalid{Reason: "the answer is not base64"}
	}
	return func(ctx context.Context, want expectation) (*verified, error) {
		return p.verifier.response(ctx, raw, want)
	}, nil
}
