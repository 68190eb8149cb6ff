// Package kerberos signs people in with the Kerberos ticket of their computer, which a browser sends when it is asked
// to negotiate (RFC 4559, RFC 4178, RFC 4120).
package kerberos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	// skew is by how much the clocks of a computer and of this machine may differ. (RFC 4120 3.2.3)
	skew     = 5 * time.Minute
	maxToken = 64 << 10 // bytes in base64: tickets of Active Directory name all groups

	scheme = "Negotiate"
)

// Provider signs people in by their tickets.
type Provider struct {
	cfg     Config
	env     idp.Env
	keys    *keytab.Keytab
	service types.PrincipalName
	realms  []string
}

var (
	_ idp.Challenger = (*Provider)(nil)
	_ idp.Checker    = (*Provider)(nil)
)

// New returns a provider, or an error that says what is wrong with the configuration.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, env: env}
	p.cfg.Level = max(cfg.Level, 1)
	var err error
	if p.keys, err = cfg.keys(); err != nil {
		return nil, err
	}
	service := cfg.Service
	if service == "" {
		u, err := url.Parse(env.Issuer)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		service = "HTTP/" + u.Hostname()
	}
	p.service = types.NewPrincipalName(2, service) // NT-SRV-INST
	own := realmsOf(p.keys, p.service.NameString)
	if len(own) == 0 {
		return nil, fmt.Errorf("keytab: it has no key for %s: make one, or name the principal that it has as service", service)
	}
	if p.realms = cfg.Realms; len(p.realms) == 0 {
		p.realms = own
	}
	return p, nil
}

// Parameters implements idp.Provider.
func (*Provider) Parameters() []string { return nil }

// Serves implements idp.Challenger.
func (p *Provider) Serves(addr netip.Addr) bool {
	return len(p.cfg.Networks) == 0 || idp.Within(p.cfg.Networks, addr)
}

// Auto implements idp.Challenger.
func (p *Provider) Auto() bool { return p.cfg.Auto }

// Begin implements idp.Redirector. The browser goes to our own endpoint, which asks it for a ticket. A computer has its
// ticket whether or not the person is there, so it proves nothing again; and a browser that has none shows a page.
func (p *Provider) Begin(_ context.Context, q idp.Request) (*idp.Next, error) {
	switch {
	case q.Force:
		return nil, &idp.Rejection{Reason: "a ticket does not show that the person has signed in again"}
	case q.Passive:
		return nil, &idp.Rejection{Reason: "a browser without a ticket is shown a page", Passive: true}
	}
	return &idp.Next{
		URL:   p.env.Issuer + "/kerberos/" + url.PathEscape(p.env.ID) + "/negotiate?" + url.Values{"flow": {q.Flow}}.Encode(),
		State: []byte(q.Flow),
	}, nil
}

// FlowOf implements idp.Redirector.
func (*Provider) FlowOf(r *http.Request) (string, error) {
	flow := r.URL.Query().Get("flow")
	if flow == "" {
		return "", &idp.Invalid{Reason: "the address names no sign-in"}
	}
	return flow, nil
}

// Challenge implements idp.Challenger. (RFC 4559 4.1)
func (*Provider) Challenge(w http.ResponseWriter, r *http.Request) bool {
	if len(r.Header["Authorization"]) > 0 {
		return false
	}
	w.Header().Set("WWW-Authenticate", scheme)
	return true
}

// Finish implements idp.Redirector.
func (p *Provider) Finish(ctx context.Context, state []byte, r *http.Request) (*idp.Identity, error) {
	if flow, err := p.FlowOf(r); err != nil || flow != string(state) {
		return nil, &idp.Invalid{Reason: "the answer belongs to another sign-in"}
	}
	raw, err := tokenOf(r)
	if err != nil {
		return nil, err
	}
	req, account, err := p.open(raw, r)
	if err != nil {
		return nil, err
	}
	// What the ticket says comes from the server of the realm. The authenticator comes from the computer.
	in := req.Ticket.DecryptedEncPart
	name := in.CName.NameString
	if !slices.Equal(name, req.Authenticator.CName.NameString) || in.CRealm != req.Authenticator.CRealm {
		return nil, &idp.Invalid{Reason: "the ticket is that of another principal"}
	}
	if !slices.Contains(p.realms, in.CRealm) {
		return nil, &idp.Rejection{Reason: "the realm is not one whose people sign in here"}
	}
	// ann/admin, host/pc7, WELLKNOWN/ANONYMOUS; and PC7$, a computer or a service of Active Directory
	if len(name) != 1 || name[0] == "" || strings.HasSuffix(name[0], "$") {
		return nil, &idp.Rejection{Reason: "the principal is that of a service or a role, not of a person"}
	}
	// Active Directory finds an account by other names than its own too, and writes the name that it was asked for into
	// the ticket: the owner of a computer account ann$ or of a userPrincipalName ann can be given a ticket of ann.
	subject := strings.ToLower(name[0])
	if in.CName.NameType != nametype.KRB_NT_PRINCIPAL || account != "" && strings.ToLower(account) != subject {
		return nil, &idp.Rejection{Reason: "the name in the ticket is not the name of the account that got the ticket"}
	}
	key := "authenticator " + secret.Hash(string(req.EncryptedAuthenticator.Cipher))
	if err := p.env.Once(ctx, key, req.Authenticator.CTime.Add(2*skew)); err != nil {
		return nil, err
	}
	// Active Directory gives a ticket for any spelling of a name, so each spelling would be an account: a person who is
	// blocked would come back as ANN. (docs/kerberos.md)
	details := p.cfg.Mapping.Apply(map[string][]string{"principal": {name[0] + "@" + in.CRealm}, "name": {name[0]}, "realm": {in.CRealm}})
	return &idp.Identity{
		Issuer: in.CRealm, Subject: subject, Username: idp.Single(details["username"]), Level: p.cfg.Level,
		AuthTime: in.AuthTime, AMR: []string{"IMPLICIT"}, Details: details,
	}, nil
}

// tokenOf reads the token of a request.
func tokenOf(r *http.Request) ([]byte, error) {
	headers := r.Header["Authorization"]
	if len(headers) != 1 {
		return nil, &idp.Invalid{Reason: "there is more than one Authorization header"}
	}
	word, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(word, scheme) {
		return nil, &idp.Rejection{Reason: "the browser answers with another scheme than Negotiate"}
	}
	if len(text) > maxToken {
		return nil, &idp.Invalid{Reason: "the token is too long"}
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, &idp.Invalid{Reason: "the token is not in base64"}
	}
	if strings.HasPrefix(string(raw), "NTLMSSP\x00") {
		return nil, &idp.Rejection{Reason: "the browser answers with NTLM: it has no ticket for this address"}
	}
	return raw, nil
}

// open decrypts a token and verifies its ticket and authenticator. It also returns the name of the account that got the
// ticket, if the ticket says it. The library is made to end on bytes that it cannot read.
func (p *Provider) open(raw []byte, r *http.Request) (req *messages.APReq, account string, err error) {
	defer func() {
		if recover() != nil {
			req, account, err = nil, "", &idp.Invalid{Reason: "the token cannot be read"}
		}
	}()
	var token spnego.SPNEGOToken
	inner := raw
	switch {
	case token.Unmarshal(raw) != nil: // some clients send the inner token alone
	case !token.Init || len(token.NegTokenInit.MechTypes) == 0:
		return nil, "", &idp.Invalid{Reason: "the token does not begin a negotiation"}
	default:
		first := token.NegTokenInit.MechTypes[0]
		if !first.Equal(gssapi.OIDKRB5.OID()) && !first.Equal(gssapi.OIDMSLegacyKRB5.OID()) {
			return nil, "", &idp.Rejection{Reason: "the browser prefers another mechanism than Kerberos"}
		}
		inner = token.NegTokenInit.MechTokenBytes
	}
	var mech spnego.KRB5Token
	if mech.Unmarshal(inner) != nil || !mech.IsAPReq() {
		return nil, "", &idp.Invalid{Reason: "the token has no ticket"}
	}
	req = &mech.APReq
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	address, _ := types.GetHostAddress(peer.String()) // of no use where it cannot be read
	service := p.service
	if ok, verifyErr := req.Verify(p.keys, skew, address, &service); verifyErr != nil || !ok {
		return nil, "", &idp.Invalid{Reason: "the ticket is not valid", Cause: cause(verifyErr)}
	}
	if account, err = p.account(&req.Ticket); err != nil {
		return nil, "", err
	}
	return req, account, nil
}

// account returns the name of the account that got a ticket. Empty: the server of the realm does not say it. A computer
// can ask Active Directory to leave the PAC out, so a ticket without one is not taken by default. (MS-KILE 3.3.5.3)
func (p *Provider) account(t *messages.Ticket) (string, error) {
	raw, err := pacOf(t.DecryptedEncPart.AuthorizationData)
	if err == nil && raw == nil {
		if p.cfg.WithoutPAC {
			return "", nil
		}
		return "", &idp.Rejection{Reason: "the ticket has no PAC, which names the account that got the ticket"}
	}
	key, _, keyErr := p.keys.GetEncryptionKey(p.service, t.Realm, t.EncPart.KVNO, t.EncPart.EType)
	var account string
	if err = errors.Join(err, keyErr); err == nil {
		account, err = accountOf(raw, key)
	}
	if err != nil {
		return "", &idp.Invalid{Reason: "the PAC of the ticket is not valid", Cause: err}
	}
	return account, nil
}

// cause keeps what says why, without names: the text of the library has those of the principals.
func cause(err error) error {
	refused := messages.KRBError{}
	if errors.As(err, &refused) {
		return fmt.Errorf("error %d of Kerberos", refused.ErrorCode)
	}
	if err != nil {
		return errors.New("it cannot be decrypted with the keys of the keytab")
	}
	return nil
}

// Check implements idp.Checker. There is nothing to reach: tickets are verified by the keys alone.
func (p *Provider) Check(context.Context) (steps idp.Steps) {
	kinds := map[int32]bool{}
	for _, e := range p.keys.Entries {
		if slices.Equal(e.Principal.Components, p.service.NameString) {
			kinds[e.Key.KeyType] = true
		}
	}
	delete(kinds, etypeID.RC4_HMAC)
	name := p.service.PrincipalNameString()
	if len(kinds) == 0 {
		steps.Warn("keytab", "its keys for "+name+" are for RC4 alone, which is broken",
			"give the account keys for AES, and make a new keytab")
	} else {
		steps.OK("keytab", "it has keys for %s", name)
	}
	steps.OK("realms", "people of %s sign in", strings.Join(p.realms, ", "))
	if p.cfg.WithoutPAC {
		steps.Warn("without_pac", "tickets without a PAC are taken: in Active Directory anyone can get one under another name",
			"remove it, unless the realm is one of MIT Kerberos before 1.20 or of Heimdal")
	}
	return steps
}
