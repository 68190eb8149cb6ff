package grant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// codeKept is the time that a code is kept after its expiry, so a replay is detected.
const codeKept = 24 * time.Hour

// StoreCode stores a code that grantAuthorizationCode redeems. (RFC 6749 4.1.2)
func StoreCode(tx storage.Tx, code string, rec *Code) error {
	return codes.Create(tx, secret.Hash(code), *rec, rec.ExpiresAt.Add(codeKept))
}

// spentCodeKept is the maximum time that a spent code is remembered, so a replay is detected. It is forgotten earlier
// when its grant ends earlier.
const spentCodeKept = 24 * time.Hour

// codeVerdict is the validity of a code for the client that presents it.
type codeVerdict int

const (
	codeUnknown codeVerdict = iota
	codeForeign             // another client's
	codeSpent               // was redeemed or burned before
	codeExpired
	codeMismatch // its redirect_uri or code_verifier is wrong
	codeUnproved // the key that it is bound to was not proved
	codeEnded    // client, person, session or what they agreed on has ended
	codeGood
)

// codeReasons are the reasons for log and event.
var codeReasons = map[codeVerdict]error{
	codeUnknown: errors.New("unknown code"), codeForeign: errors.New("the code is another client's"),
	codeSpent:   denial.New(denial.CodeReplayed, "the code was used before"),
	codeExpired: errors.New("expired code"), codeMismatch: denial.New(denial.ProofKey, "redirect_uri or code_verifier is wrong"),
	codeUnproved: errUnproved, codeEnded: errors.New("client, person or session has ended"),
}

// codeTexts are the messages to the client about its own code. Of a code that is not its own it learns nothing.
var codeTexts = map[codeVerdict]string{
	codeSpent: "the code was used before", codeExpired: "the code has expired",
	codeUnproved: "the code is bound to another key than the request proves", codeEnded: "the sign-in or consent behind the code has ended",
}

// codeGrant is the redemption of one code.
type codeGrant struct {
	*Request

	key       string // of the code
	challenge string // S256 of the code_verifier; empty: none was sent
	wish      clientstore.Wish
	mismatch  string // the description of a codeMismatch

	// The result of redeeming, prepared before the transaction.
	grantID string
	grant   token.Grant
	access  *token.Draft
	refresh *refreshDraft // nil: the client has no such grant
	refusal audit.Event   // of a code that is refused
}

// grantAuthorizationCode redeems a code. (RFC 6749 4.1.3; RFC 7636 4.6; token server document, "Token endpoint")
func (s *Grants) grantAuthorizationCode(ctx context.Context, q *Request) (*jsonresponse.Token, error) {
	code := q.Form.Get("code")
	if code == "" {
		return nil, oauth.InvalidRequest(nil, "code is missing")
	}
	if !secret.IsToken(secret.Code, code) {
		return nil, refuseCode(codeUnknown, "")
	}
	g := &codeGrant{
		Request: q, key: secret.Hash(code), challenge: challengeOf(q.Form.Get("code_verifier")),
	}
	var err error
	if g.wish, err = s.clients.WishOf(q.Client, q.Form); err != nil {
		return nil, err
	}
	var rec Code
	var st token.Standing
	var v codeVerdict
	err = s.view(ctx, func(tx storage.Tx) (err error) {
		rec, st, v, err = s.judgeCode(tx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	denial.Learn(ctx, func(a *denial.Refusal) { a.PersonID, a.Provider = rec.Subject, rec.Provider })
	if v == codeEnded && st.Refused != nil {
		return nil, oauth.InvalidGrant(st.Refused, codeTexts[v])
	}
	if v == codeUnknown || v == codeExpired || v == codeEnded {
		return nil, refuseCode(v, "") // nothing to record
	}
	if v == codeGood {
		if err := s.prepareCode(g, &rec, &st); err != nil {
			return nil, err
		}
	}
	if err := s.prepareRefusal(g, &rec, v); err != nil {
		return nil, err
	}
	var answer *jsonresponse.Token
	if v == codeGood {
		if answer, err = s.codeAnswer(ctx, g, st); err != nil {
			return nil, err
		}
	}
	err = s.update(ctx, func(tx storage.Tx) (err error) {
		v, err = s.redeem(tx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	if v != codeGood {
		return nil, refuseCode(v, g.mismatch)
	}
	return answer, nil
}

func refuseCode(v codeVerdict, mismatch string) error {
	text := "code is invalid, expired or was used before"
	if v == codeMismatch {
		text = mismatch
	}
	return oauth.InvalidGrant(codeReasons[v], cmp.Or(codeTexts[v], text))
}

// judgeCode reads a code and judges its validity. It writes nothing.
func (s *Grants) judgeCode(tx storage.Tx, g *codeGrant) (Code, token.Standing, codeVerdict, error) {
	rec, found, err := codes.Find(tx, g.key)
	if err != nil || !found {
		return rec, token.Standing{}, codeUnknown, err
	}
	switch {
	case rec.ClientID != g.Client.ID: // RFC 6749 4.1.3: issued to the authenticated client
		return rec, token.Standing{}, codeForeign, nil
	case rec.Spent: // before the expiry: a replay is one however late
		return rec, token.Standing{}, codeSpent, nil
	case !rec.ExpiresAt.After(g.Now):
		return rec, token.Standing{}, codeExpired, nil
	case !g.matches(&rec):
		return rec, token.Standing{}, codeMismatch, nil
	case !rec.Confirmation.MetBy(g.Proved): // RFC 9449 10
		return rec, token.Standing{}, codeUnproved, nil
	}
	st, ok, err := s.tokens.CheckStanding(tx, rec.ClientID, rec.Subject)
	if err != nil {
		return rec, st, codeUnknown, err
	}
	if !ok || st.Epochs != rec.Epochs {
		return rec, st, codeEnded, nil
	}
	if live, err := s.HasSession(tx, &rec.SignIn, st.Subject.Epoch, g.Now); err != nil || !live {
		return rec, st, codeEnded, err
	}
	if given, err := stillAllowed(tx, st.Client, &rec); err != nil || !given {
		return rec, st, codeEnded, err
	}
	return rec, st, codeGood, nil
}

// HasSession reports whether the session of a sign-in is live. Otherwise a client could get tokens after the sign-out
// and never be notified of it.
func (s *Grants) HasSession(tx storage.Tx, si *token.SignIn, epoch int64, now time.Time) (bool, error) {
	if si.SessionID == "" {
		return true, nil
	}
	session, err := s.deps.Subjects.Session(tx, si.SessionID, now)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return session.Subject == si.Subject && session.Epoch == epoch, err
}

// stillAllowed reports whether the consent behind the code still exists. A client that asks for no consent needs none.
func stillAllowed(tx storage.Tx, c *client.Client, rec *Code) (bool, error) {
	if !c.AsksConsent() {
		return true, nil
	}
	return consent.Covers(tx, rec.Subject, rec.ClientID, consent.Wish{Scope: rec.Scope, Details: rec.AuthorizationDetails})
}

// matches reports whether redirect_uri and code_verifier are those of the authorization request, and sets mismatch if
// they are not.
func (g *codeGrant) matches(rec *Code) bool {
	sent, verifier := g.Form.Get("redirect_uri"), g.Form.Has("code_verifier")
	g.mismatch = ""
	switch {
	// RFC 6749 4.1.3: identical where the authorization request had one; where it had none, the token request can repeat
	// the registered one, but no other.
	case sent == "" && rec.RedirectSent:
		g.mismatch = "redirect_uri is missing: the authorization request had one"
	case sent != "" && sent != rec.RedirectURI:
		g.mismatch = "redirect_uri is not that of the authorization request"
	case rec.Challenge == "" && verifier: // RFC 9700 2.1.1: the challenge was removed on the way
		g.mismatch = "code_verifier was sent, but the authorization request had no code_challenge"
	case rec.Challenge == "" && (g.Client.Public || g.Client.PKCERequired):
		g.mismatch = "the authorization request had no code_challenge"
	case rec.Challenge == "":
	case !verifier:
		g.mismatch = "code_verifier is missing: the authorization request had a code_challenge"
	case subtle.ConstantTimeCompare([]byte(g.challenge), []byte(rec.Challenge)) != 1: // RFC 7636 4.6
		g.mismatch = "code_verifier does not match the code_challenge of the authorization request"
	}
	return g.mismatch == ""
}

// challengeOf returns the S256 challenge of a verifier, or "" for an invalid verifier. (RFC 7636 4.1, 4.2)
func challengeOf(verifier string) string {
	if len(verifier) < 43 || len(verifier) > 128 {
		return ""
	}
	for i := range len(verifier) {
		c := verifier[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~') {
			return ""
		}
	}
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// prepareCode makes the tokens that the code gives.
func (s *Grants) prepareCode(g *codeGrant, rec *Code, st *token.Standing) error {
	allowed, err := s.clients.Decide(g.Client, g.wish, clientstore.Granted{
		Scope: rec.Scope, Resources: rec.Resources, Details: rec.AuthorizationDetails, Provider: rec.Provider, Person: &st.Subject,
	}, g.Now)
	if err != nil {
		return err
	}
	l := g.Client.Lifetimes
	ends := g.Now.Add(l.AccessToken)
	refreshes := g.Client.HasGrant(client.GrantRefreshToken) && !allowed.Limited
	if refreshes {
		ends = g.Now.Add(l.RefreshChain)
	}
	if g.grantID, err = s.tokens.NewGrantID(g.Now); err != nil {
		return err
	}
	g.grant = token.Grant{
		SignIn: rec.SignIn, Epochs: rec.Epochs, ClientID: rec.ClientID, Scope: allowed.Scope, Resources: rec.Resources,
		CreatedAt: g.Now, ExpiresAt: ends, Nonce: rec.Nonce, Claims: rec.Claims,
		Confirmation: g.heldBy(), AuthorizationDetails: allowed.GrantDetails,
	}
	if g.access, err = s.tokens.DraftGrantAccess(g.Client, g.grantID, &g.grant, allowed.Scope, allowed.Resources, allowed.Details, g.Proved,
		EventAccessIssued, g.From, g.Now); err != nil {
		return err
	}
	if refreshes {
		g.refresh, err = s.draftRefresh(g.grantID, &g.grant, allowed.Scope, l, g.Now)
	}
	return err
}

// prepareRefusal makes the event of a refused code. It is always made, since the code can still be refused inside the
// transaction.
func (s *Grants) prepareRefusal(g *codeGrant, rec *Code, v codeVerdict) error {
	kind := eventCodeRefused
	if v == codeGood || v == codeSpent {
		kind, v = EventCodeReplayed, codeSpent // a good code can be redeemed by another request until the transaction
	}
	e, err := s.deps.Events.New(kind, g.From)
	if err != nil {
		return oauth.ServerError(err)
	}
	e.PersonID, e.ClientID, e.SessionID, e.Actor = rec.Subject, g.Client.ID, rec.SessionID, g.Client.ID
	if reason := codeReasons[v]; reason != nil {
		e.Reason = reason.Error()
	}
	g.refusal = e
	return nil
}

func (s *Grants) codeAnswer(ctx context.Context, g *codeGrant, st token.Standing) (*jsonresponse.Token, error) {
	answer := s.respond(g.Client, g.access, g.Now)
	if g.refresh != nil {
		answer.RefreshToken = g.refresh.token
	}
	if slices.Contains(g.grant.Scope, client.ScopeOpenID) {
		id, err := s.tokens.SignIDToken(ctx, token.IDToken{
			Client: g.Client, SignIn: g.grant.SignIn, Subject: st.Subject, Nonce: g.grant.Nonce, Scope: g.grant.Scope, Asked: g.grant.Claims,
			Access: g.access.Token,
		}, g.Now)
		if err != nil {
			return nil, err
		}
		answer.IDToken = id
	}
	return answer, nil
}

// redeem spends the code and stores its tokens, or reacts to its misuse.
func (s *Grants) redeem(tx storage.Tx, g *codeGrant) (codeVerdict, error) {
	rec, _, v, err := s.judgeCode(tx, g)
	if err != nil {
		return v, err
	}
	switch v {
	case codeForeign:
		return v, s.deps.Events.Append(tx, g.refusal)
	case codeSpent:
		// RFC 6749 4.1.2: the tokens of the code are revoked.
		if rec.GrantID != "" {
			if err := token.DropGrant(tx, rec.Subject, rec.ClientID, rec.GrantID); err != nil {
				return v, err
			}
		}
		return v, s.deps.Events.Append(tx, g.refusal)
	case codeMismatch, codeUnproved:
		rec.Spent = true // burned: there is no second attempt
		if err := codes.Put(tx, g.key, rec, rec.ExpiresAt.Add(token.CollectMargin)); err != nil {
			return v, err
		}
		return v, s.deps.Events.Append(tx, g.refusal)
	case codeGood:
	default:
		return v, nil
	}
	if g.access == nil {
		return codeEnded, nil // it became valid a moment ago, such as by unblocking the person, who can try again
	}
	if err := g.Spend(tx); err != nil {
		return v, err
	}
	rec.Spent, rec.GrantID = true, g.grantID
	if err := codes.Put(tx, g.key, rec, g.rememberUntil()); err != nil {
		return v, err
	}
	if err := s.tokens.StoreGrant(tx, g.grantID, g.grant, g.Client.MaxSessions); err != nil {
		return v, err
	}
	if g.refresh != nil {
		if err := g.refresh.store(tx); err != nil {
			return v, err
		}
	}
	if err := s.visits.Remember(tx, g.Client, &g.grant.SignIn, g.grant.Scope, g.Now); err != nil {
		return v, err
	}
	return v, s.tokens.Issue(tx, g.access)
}

// rememberUntil returns when a spent code is forgotten.
func (g *codeGrant) rememberUntil() time.Time {
	return g.grant.Until(g.Now.Add(spentCodeKept)).Add(token.CollectMargin)
}
