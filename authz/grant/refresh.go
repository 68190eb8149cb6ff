package grant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// answerPurpose binds the key of a sealed answer to its use.
const answerPurpose = "gatehouse refresh answer v1"

// refreshVerdict is the validity of a refresh token.
type refreshVerdict int

const (
	refreshUnknown refreshVerdict = iota
	refreshExpired
	refreshEnded // its grant, client or person has ended
	refreshGood
	refreshSpent    // rotated before
	refreshUnproved // the key that it is bound to was not proved
)

var errRefreshReused = denial.New(denial.RefreshReplayed, "the refresh token was used before")

// refreshReasons are for the log; the client reads one text for all of them.
var refreshReasons = map[refreshVerdict]error{
	refreshUnknown: errors.New("unknown refresh token"), refreshExpired: errors.New("expired refresh token"),
	refreshEnded: errors.New("grant, client or person has ended"), refreshSpent: errRefreshReused,
	refreshUnproved: errUnproved,
}

// chain is a refresh token and the records that it depends on.
type chain struct {
	rec      refreshRecord
	grant    token.Grant
	standing token.Standing
	verdict  refreshVerdict
}

// readChain reads a refresh token. It writes nothing.
func (s *Grants) readChain(tx storage.Tx, key string, now time.Time) (ch chain, err error) {
	found := false
	if ch.rec, found, err = refreshes.Find(tx, key); err != nil || !found {
		return ch, err
	}
	if !ch.rec.ExpiresAt.After(now) {
		ch.verdict = refreshExpired
		return ch, nil
	}
	ch.verdict = refreshEnded
	if ch.grant, found, err = s.tokens.FindGrant(tx, ch.rec.GrantID); err != nil || !found {
		return ch, err
	}
	st, ok, err := s.tokens.CheckStanding(tx, ch.rec.ClientID, ch.grant.Subject)
	ch.standing = st
	if err != nil || !ok || st.Epochs != ch.grant.Epochs || !ch.grant.Counts(&st.Subject) || !ch.grant.ExpiresAt.After(now) {
		return ch, err
	}
	if ch.verdict = refreshGood; !ch.rec.SpentAt.IsZero() {
		ch.verdict = refreshSpent
	}
	return ch, nil
}

// FindRefresh returns the grant of a refresh token of a client that could be used now, and its scopes. It writes
// nothing.
func (s *Grants) FindRefresh(tx storage.Tx, key string, q *Request) (id string, g token.Grant, scope []string, usable bool, err error) {
	ch, err := s.readChain(tx, key, q.Now)
	if err != nil || ch.verdict != refreshGood || ch.rec.ClientID != q.Client.ID || !ch.grant.Confirmation.MetBy(q.Proved) {
		return "", g, nil, false, err
	}
	return ch.rec.GrantID, ch.grant, s.clients.StillGiven(ch.standing.Client, ch.rec.Scope, &ch.standing.Subject, q.Now), true, nil
}

// refreshDraft is a refresh token on its way into storage.
type refreshDraft struct {
	token, key string
	rec        refreshRecord
}

// draftRefresh makes a refresh token of a grant. It ends with the grant at the latest: the end of the rotation chain.
func (s *Grants) draftRefresh(grantID string, g *token.Grant, scope []string, l client.Lifetimes, now time.Time) (*refreshDraft, error) {
	token, err := secret.NewToken(s.deps.Random, secret.RefreshToken)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	return &refreshDraft{token: token, key: secret.Hash(token), rec: refreshRecord{
		GrantID: grantID, ClientID: g.ClientID, Scope: scope, CreatedAt: now, ExpiresAt: g.Until(now.Add(l.RefreshToken)),
	}}, nil
}

func (n *refreshDraft) store(tx storage.Tx) error {
	if err := refreshes.Create(tx, n.key, n.rec, n.rec.ExpiresAt.Add(token.CollectMargin)); err != nil {
		return fmt.Errorf("store refresh token: %w", err)
	}
	return nil
}

// rotation is one use of a refresh token.
type rotation struct {
	*Request

	token, key string
	wish       clientstore.Wish

	// What the rotation gives, made before the transaction.
	access *token.Draft
	next   *refreshDraft
	sealed []byte // the answer
	reuse  audit.Event
}

// outcome is the result of a rotation.
type outcome struct {
	verdict refreshVerdict
	fresh   bool   // rotated now
	sealed  []byte // the answer of the earlier rotation, within its grace
	print   string // of the request that it answers
	spentAt time.Time
	another bool // within the grace, another access token than that of the answer was issued now
}

// print is the same for requests that ask for the same access token: with its scopes, for its resources, bound to its
// key.
func (g *rotation) print() string {
	return secret.Hash(storage.Key(strings.Join(slices.Sorted(slices.Values(g.wish.Scope)), " "), strings.Join(g.wish.Resources, " "),
		g.wish.Details, g.Proved.JKT, g.Proved.X5T))
}

// grantRefresh rotates a refresh token. (RFC 6749 6; RFC 9700 4.14.2; docs/decisions/token-endpoint.md#refresh) A lost
// answer or a second tab gets the same successor again within the grace period, with an access token of its own if it
// asks for another one; any other second use ends the grant.
func (s *Grants) grantRefresh(ctx context.Context, q *Request) (*jsonresponse.Token, error) {
	g := &rotation{Request: q, token: q.Form.Get("refresh_token")}
	if g.token == "" {
		return nil, oauth.InvalidRequest(nil, "refresh_token is missing")
	}
	var err error
	if g.wish, err = s.clients.WishOf(q.Client, q.Form); err != nil {
		return nil, err
	}
	if g.wish.Scope, err = client.ParseScope(q.Form.Get("scope")); err != nil {
		return nil, oauth.InvalidScope(err, "scope is malformed")
	}
	if !secret.IsToken(secret.RefreshToken, g.token) {
		return nil, refuseRefresh(refreshUnknown)
	}
	g.key = secret.Hash(g.token)
	var ch chain
	var out outcome
	err = s.view(ctx, func(tx storage.Tx) (err error) {
		ch, out, err = s.judgeRefresh(tx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.sealed != nil && out.print == g.print() { // the View is recent enough to repeat it
		return s.repeat(ctx, g, out)
	}
	if ch.verdict != refreshGood && ch.verdict != refreshSpent {
		if ch.verdict == refreshEnded && ch.standing.Refused != nil {
			return nil, oauth.InvalidGrant(ch.standing.Refused, refreshText)
		}
		return nil, refuseRefresh(ch.verdict)
	}
	answer, err := s.prepareRotation(ctx, g, &ch, out.sealed == nil)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, func(tx storage.Tx) (err error) {
		out, err = s.rotate(tx, g)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case out.fresh:
		return answer, nil
	case out.another:
		first, err := g.open(out)
		if err != nil {
			return nil, err
		}
		answer.RefreshToken = first.RefreshToken
		return answer, nil
	case out.sealed != nil:
		return s.repeat(ctx, g, out)
	}
	return nil, refuseRefresh(out.verdict)
}

// repeat gives the answer of an earlier rotation again.
func (s *Grants) repeat(ctx context.Context, g *rotation, out outcome) (*jsonresponse.Token, error) {
	if g.spent != nil {
		if err := s.update(ctx, g.Spend); err != nil {
			return nil, err
		}
	}
	return g.open(out)
}

const refreshText = "refresh token is invalid, expired or was used before"

func refuseRefresh(v refreshVerdict) error {
	return oauth.InvalidGrant(refreshReasons[v], refreshText)
}

// judgeRefresh reads the token on behalf of the client that presents it, and the answer of an earlier rotation if that
// is to be repeated.
func (s *Grants) judgeRefresh(tx storage.Tx, g *rotation) (chain, outcome, error) {
	ch, err := s.readChain(tx, g.key, g.Now)
	if err != nil {
		return ch, outcome{}, err
	}
	if ch.verdict != refreshUnknown && ch.rec.ClientID != g.Client.ID {
		ch.verdict = refreshUnknown // RFC 6749 6: bound to the client it was issued to
	}
	if (ch.verdict == refreshGood || ch.verdict == refreshSpent) && !ch.grant.Confirmation.MetBy(g.Proved) {
		ch.verdict = refreshUnproved // also of a spent one: a thief without the key must not end the grant either
	}
	out := outcome{verdict: ch.verdict}
	if ch.verdict != refreshSpent || g.Now.Sub(ch.rec.SpentAt) >= g.Client.Lifetimes.RefreshGrace {
		return ch, out, nil
	}
	next, found, err := refreshes.Find(tx, ch.rec.Successor)
	if err != nil || !found || !next.SpentAt.IsZero() {
		return ch, out, err // the client has used the successor, so it needs no second answer
	}
	again, _, err := answers.Find(tx, g.key)
	if err != nil {
		return ch, out, err
	}
	out.sealed, out.print, out.spentAt = again.Sealed, again.Print, ch.rec.SpentAt
	return ch, out, nil
}

// prepareRotation makes the successor, the access token, the answer and the event of a reuse. late says that the grace
// of a spent token is over.
func (s *Grants) prepareRotation(ctx context.Context, g *rotation, ch *chain, late bool) (*jsonresponse.Token, error) {
	e, err := s.deps.Events.New(eventRefreshReused, g.From)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	e.PersonID, e.ClientID, e.SessionID, e.Actor = ch.grant.Subject, g.Client.ID, ch.grant.SessionID, g.Client.ID
	if g.reuse = e; ch.verdict == refreshSpent && late {
		return nil, nil //nolint:nilnil // a reuse has no answer
	}
	allowed, err := s.clients.Decide(ch.standing.Client, g.wish, clientstore.Granted{
		Scope: ch.rec.Scope, Resources: ch.grant.Resources, Details: ch.grant.AuthorizationDetails, Provider: ch.grant.Provider,
		Person: &ch.standing.Subject,
	}, g.Now)
	if err != nil {
		return nil, err
	}
	if allowed.Limited { // a limit that was set since
		return nil, oauth.InvalidScope(nil, "a scope has a usage limit and is not given by a refresh token")
	}
	if g.access, err = s.tokens.DraftGrantAccess(g.Client, ch.rec.GrantID, &ch.grant, allowed.Scope, allowed.Resources, allowed.Details,
		g.Proved, eventAccessRefreshed, g.From, g.Now); err != nil {
		return nil, err
	}
	// RFC 6749 6: the new refresh token has the scope of the old one, not the narrower one asked for this access token.
	if g.Client.FAPI2 { // FAPI 2.0 Security Profile 5.3.2.1: it is bound to the client, and is not replaced
		g.next = nil
	} else if g.next, err = s.draftRefresh(ch.rec.GrantID, &ch.grant, ch.rec.Scope, g.Client.Lifetimes, g.Now); err != nil {
		return nil, err
	}
	answer := s.respond(g.Client, g.access, g.Now)
	if g.next != nil {
		answer.RefreshToken = g.next.token
	}
	if slices.Contains(allowed.Scope, client.ScopeOpenID) {
		// OpenID Connect Core 12.2: the auth_time of the sign-in, and no nonce.
		answer.IDToken, err = s.tokens.SignIDToken(ctx, token.IDToken{
			Client: g.Client, SignIn: ch.grant.SignIn, Subject: ch.standing.Subject, Scope: allowed.Scope, Asked: ch.grant.Claims,
			Access: g.access.Token,
		}, g.Now)
		if err != nil {
			return nil, err
		}
	}
	return answer, g.seal(answer)
}

func (g *rotation) seal(answer *jsonresponse.Token) error {
	body, err := json.Marshal(answer)
	if err == nil {
		g.sealed, err = secret.SealWithToken(g.token, answerPurpose, body)
	}
	if err != nil {
		return oauth.ServerError(err)
	}
	return nil
}

// open reads the answer of the earlier rotation, which is at most as old as the grace period.
func (g *rotation) open(out outcome) (*jsonresponse.Token, error) {
	body, err := secret.OpenWithToken(g.token, answerPurpose, out.sealed)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	answer := new(jsonresponse.Token)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, oauth.ServerError(err)
	}
	answer.ExpiresIn = max(0, answer.ExpiresIn-jsonresponse.Seconds(g.Now.Sub(out.spentAt)))
	return answer, nil
}

// rotate spends the token and stores its successor, or reacts to a reuse.
func (s *Grants) rotate(tx storage.Tx, g *rotation) (outcome, error) {
	ch, out, err := s.judgeRefresh(tx, g)
	if err != nil {
		return out, err
	}
	switch {
	case out.sealed != nil && out.print == g.print():
		return out, nil
	case out.sealed != nil && g.access != nil:
		// The access token of the answer is for other resources, or bound to a key that this sender may not have.
		if err := g.Spend(tx); err != nil {
			return out, err
		}
		out.another = true
		return out, s.tokens.Issue(tx, g.access)
	case ch.verdict == refreshSpent:
		out.sealed = nil
		// RFC 9700 4.14.2: one of its two holders is a thief, and it is unknown which.
		if err := token.DropGrant(tx, ch.grant.Subject, ch.grant.ClientID, ch.rec.GrantID); err != nil {
			return out, err
		}
		return out, s.deps.Events.Append(tx, g.reuse)
	case ch.verdict != refreshGood:
		return out, nil
	case g.access == nil:
		out.verdict = refreshEnded // spent a moment ago and valid now: impossible, so nothing is issued
		return out, nil
	}
	if err := g.Spend(tx); err != nil {
		return out, err
	}
	if g.next == nil {
		out.fresh = true
		return out, s.tokens.Issue(tx, g.access)
	}
	rec := ch.rec
	rec.SpentAt, rec.Successor = g.Now, g.next.key
	if err := refreshes.Put(tx, g.key, rec, rec.ExpiresAt.Add(token.CollectMargin)); err != nil {
		return out, err
	}
	expires := g.Now.Add(g.Client.Lifetimes.RefreshGrace + token.CollectMargin)
	if err := answers.Put(tx, g.key, answerRecord{Sealed: g.sealed, Print: g.print()}, expires); err != nil {
		return out, err
	}
	if err := g.next.store(tx); err != nil {
		return out, err
	}
	out.fresh = true
	return out, s.tokens.Issue(tx, g.access)
}
