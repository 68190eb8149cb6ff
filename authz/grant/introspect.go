package grant

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/jwtresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func isAppPassword(text string) bool { return secret.IsToken(secret.AppPassword, text) }

// HandleIntrospect serves POST /oauth/api/v2/token/introspect (RFC 7662; token server document, "Token introspection").
// Only API clients can ask.
func (s *Grants) HandleIntrospect(w http.ResponseWriter, r *http.Request) error {
	asker, f, err := s.authenticateAsker(r)
	if err != nil {
		return err
	}
	text := f.Get("token")
	if text == "" {
		return oauth.InvalidRequest(nil, "token is missing")
	}
	refresh := false
	switch f.Get("refresh_user_details") {
	case "", "false":
	case "true":
		refresh = true
	default:
		return oauth.InvalidRequest(nil, "refresh_user_details must be true or false")
	}
	again := f.Get("recheck") == "true" // the request was let in already: docs/decisions/gateway.md#tokens-of-another-server
	introspect := s.tokens.Describe
	if again {
		introspect = s.tokens.Recheck
	}
	switch {
	case secret.IsToken(secret.RefreshToken, text):
		introspect = s.introspectRefresh
	case isAppPassword(text):
		return s.introspectAppPassword(w, r, asker, text, again)
	}
	i, err := introspect(r.Context(), text)
	if err != nil {
		return err
	}
	if stands, err := s.providerStands(r.Context(), i); err != nil {
		return err
	} else if !stands {
		i = &token.Introspection{}
	}
	if i.UsageLimit > 0 && !again && concerns(asker, i) {
		permissions := i.Permissions
		if i, err = s.tokens.Use(r.Context(), text); err == nil { // an inactive answer counts nothing
			i.Permissions = permissions
		}
	}
	if err != nil {
		return err
	}
	if !i.Active || !concerns(asker, i) {
		return s.answerAbout(w, r, asker, jsonresponse.Inactive{})
	}
	if refresh && s.refreshDetails(r.Context(), text, i) {
		w.Header().Set(headerDetails, "refreshed")
	} else if refresh {
		w.Header().Set(headerDetails, "cached")
	}
	return s.answerAbout(w, r, asker, s.introspectionBody(i))
}

// answerAbout answers as the API client asks: by JSON, or by a JWT for it alone (RFC 9701).
func (s *Grants) answerAbout(w http.ResponseWriter, r *http.Request, asker *client.APIClient, b jsonresponse.Body) error {
	if !jwtresponse.Accepts(r.Header, jwtresponse.MediaIntrospection) {
		jsonresponse.Write(w, http.StatusOK, b)
		return nil
	}
	signed, err := s.deps.Envelopes.Introspection(asker, b.AppendJSON(nil))
	if err != nil {
		return oauth.ServerError(err)
	}
	jsonresponse.WriteJWT(w, jwtresponse.MediaIntrospection, signed)
	return nil
}

// authenticateAsker returns the API client that asks, and its form. One with a certificate says in the form who it is
// (RFC 8705 2), so is read first.
func (s *Grants) authenticateAsker(r *http.Request) (asker *client.APIClient, f oauth.Form, err error) {
	if s.clients.PresentsCertificate(r) {
		if f, err = oauth.ParseForm(r); err == nil {
			asker, err = s.clients.AuthenticateAPIByCertificate(r, f, "introspection")
		}
		return asker, f, err
	}
	if asker, err = s.clients.AuthenticateAPI(r, "introspection"); err == nil {
		f, err = oauth.ParseForm(r)
	}
	return asker, f, err
}

// introspectAppPassword answers about an app password. It is known to API clients alone that name one of its sites as
// an audience, since a resource server that ignores aud would accept it anywhere, and while that site takes those of
// its person. An active answer is a use, unless the request was let in already.
func (s *Grants) introspectAppPassword(w http.ResponseWriter, r *http.Request, asker *client.APIClient, text string, again bool) error {
	i, err := s.personal.Recheck(r.Context(), text)
	if err == nil && i.Active {
		at := slices.IndexFunc(i.Audience, func(site string) bool {
			return client.HasResource(asker.Audiences, site) && s.personal.Takes(site, i.Person)
		})
		if at < 0 || !concerns(asker, i) {
			i = &token.Introspection{}
		} else if !again {
			i, err = s.personal.Use(r.Context(), text, i.Audience[at], s.deps.Origin(r))
		}
	}
	switch {
	case err != nil:
		return err
	case !i.Active:
		return s.answerAbout(w, r, asker, jsonresponse.Inactive{})
	}
	return s.answerAbout(w, r, asker, s.introspectionBody(i))
}

// introspectRefresh is Introspect for refresh tokens. They open nothing at a resource server, so Introspect does not
// know them.
func (s *Grants) introspectRefresh(ctx context.Context, text string) (*token.Introspection, error) {
	key, now := secret.Hash(text), s.now()
	out := &token.Introspection{}
	err := s.view(ctx, func(tx storage.Tx) error {
		ch, err := s.readChain(tx, key, now)
		if err != nil || ch.verdict != refreshGood {
			return err
		}
		person := ch.standing.Subject
		if ch.grant.Details != nil {
			person.Details = ch.grant.Details
		}
		*out = token.Introspection{
			Active: true, Scope: s.clients.StillGiven(ch.standing.Client, ch.rec.Scope, &ch.standing.Subject, now),
			ClientID: ch.rec.ClientID, Client: ch.standing.Client, Subject: ch.grant.Subject,
			TokenType: token.TypeRefresh, IssuedAt: ch.rec.CreatedAt, ExpiresAt: ch.rec.ExpiresAt, AuthTime: ch.grant.AuthTime,
			Audience: ch.grant.Resources, Level: ch.grant.Level, AMR: ch.grant.AMR, SessionID: ch.grant.SessionID, Person: &person,
			Provider: ch.grant.Provider, Confirmation: ch.grant.Confirmation, Sector: ch.standing.Client.Sector(), App: ch.standing.Client.App,
			AuthorizationDetails: s.clients.StillDetailed(ch.standing.Client, ch.grant.AuthorizationDetails),
		}
		out.Permissions, err = s.deps.Subjects.Permissions(tx, person.Partition, person.Groups)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// concerns reports whether the token is meant for one of the API client's audiences. One without audiences can read
// every token.
func concerns(c *client.APIClient, i *token.Introspection) bool {
	if len(c.Partitions) > 0 && i.Person != nil && !slices.Contains(c.Partitions, cmp.Or(i.Person.Partition, audit.DefaultPartition)) {
		return false
	}
	return len(c.Audiences) == 0 || slices.ContainsFunc(i.Audience, func(a string) bool { return client.HasResource(c.Audiences, a) })
}

func (s *Grants) introspectionBody(i *token.Introspection) *jsonresponse.Introspection {
	b := &jsonresponse.Introspection{
		Active: true, Scope: strings.Join(i.Scope, " "), ClientID: i.ClientID, TokenType: i.TokenType, Expires: i.ExpiresAt.Unix(),
		IssuedAt: i.IssuedAt.Unix(), NotBefore: i.IssuedAt.Unix(), Subject: s.tokens.SubjectOf(i), Audience: i.Audience, Issuer: s.issuer,
		AMR: i.AMR, ACR: token.ACR(i.Level), UsageLimit: i.UsageLimit, UsageCount: i.UsageCount,
		Confirmation: jsonresponse.Confirmation(i.Confirmation), Actor: s.actorBody(i),
		AuthorizationDetails: jsonresponse.Written(i.AuthorizationDetails),
	}
	if !i.AuthTime.IsZero() {
		b.AuthTime = i.AuthTime.Unix()
	}
	if i.App != nil {
		b.AppIdentifier, b.AppPlatform, b.AppVersion = i.App.Identifier, i.App.Platform, i.App.Version
	}
	if p := i.Person; p != nil {
		b.Username, b.Partition = p.Username, p.Profile["partition"]
		b.UserDetails, b.GroupPermissions = p.Details, i.Permissions
		nameGroups(b, i)
	}
	return b
}

// actorBody says who acts for the subject of a token.
func (s *Grants) actorBody(i *token.Introspection) (out *jsonresponse.Actor) {
	for _, a := range slices.Backward(i.Actors) {
		out = &jsonresponse.Actor{Subject: s.tokens.ActorSubject(i.Sector, a), ClientID: a.ClientID, Actor: out}
	}
	return out
}

// nameGroups adds what the scopes of the token give about the groups of its person.
func nameGroups(b *jsonresponse.Introspection, i *token.Introspection) {
	for _, scope := range i.Scope {
		switch scope {
		case client.ScopeGroups:
			b.Groups = slices.Sorted(slices.Values(i.Person.Groups))
		case client.ScopeRoles:
			b.Roles = slices.Sorted(slices.Values(i.Person.Groups))
		case client.ScopePermissions:
			b.Permissions = token.PermissionsOf(b.GroupPermissions)
		}
	}
}
