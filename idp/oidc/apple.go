package oidc

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

const (
	appleIssuer = "https://appleid.apple.com"
	relayDomain = "privaterelay.appleid.com"

	// appleSecretLife is the validity of a client secret, which Apple allows for six months. It is used until half of
	// that has passed.
	appleSecretLife = 10 * time.Minute

	maxUser      = 2 << 10 // bytes of the form field user
	maxNamePart  = 128     // characters
	claimName    = "name"
	claimPrivate = "is_private_email"
)

// fromUser are the claims that the form field user becomes. The sender of the form chooses the text.
var fromUser = []string{claimName, "given_name", "family_name"}

// isAppleID accepts the ids of teams and keys.
func isAppleID(s string) bool {
	return len(s) == 10 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// appleDefaults fills in what is known of Apple.
func (c Config) appleDefaults() Config {
	c.Issuer = cmp.Or(c.Issuer, appleIssuer)
	if c.Scopes == nil {
		c.Scopes = []string{claimName, claimEmail}
	}
	if slices.Contains(c.Scopes, claimName) || slices.Contains(c.Scopes, claimEmail) {
		c.ResponseMode = "form_post" // Apple refuses any other with these scopes
	}
	c.AuthMethod = authApple
	return c
}

func (c Config) validateApple() (wrong []error) {
	add := func(err error) { wrong = append(wrong, err) }
	if !isAppleID(c.TeamID) {
		add(coded.Errorf("apple_id", "value", "team_id %q: want the ten capitals and digits by which Apple calls the team", c.TeamID))
	}
	if !isAppleID(c.KeyID) {
		add(coded.Errorf("apple_id", "value", "key_id %q: want the ten capitals and digits by which Apple calls the key", c.KeyID))
	}
	if c.Key == "" {
		add(coded.New("apple_key", "key is missing: name the key pair of the configuration with the key of Apple"))
	}
	if c.JWKSURL != "" {
		if err := checkEndpoint(c.Issuer, c.JWKSURL); err != nil {
			add(fmt.Errorf("jwks_uri %q: %w", c.JWKSURL, err))
		}
	}
	if slices.Contains(fromUser, c.IdentifyBy) {
		add(coded.Errorf("identify_by", "value", "identify_by %s: people choose their names themselves", c.IdentifyBy))
	}
	return wrong
}

// appleSecret is the client secret of Apple: a JWT that our key signs. It is kept while it is new.
type appleSecret struct {
	mu    sync.Mutex // guards all below
	text  string
	by    ecdsa.PublicKey
	until time.Time
}

// get returns a client secret that is valid for some minutes. (developer.apple.com, "Creating a client secret")
func (s *appleSecret) get(ctx context.Context, p *Provider) (string, error) {
	key, err := p.appleKey(ctx)
	if err != nil {
		return "", err
	}
	now := p.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != "" && now.Before(s.until) && s.by.Equal(&key.PublicKey) {
		return s.text, nil
	}
	claims, err := json.Marshal(map[string]any{
		"iss": p.cfg.TeamID, "sub": p.cfg.ClientID, "aud": p.cfg.Issuer, "iat": now.Unix(), "exp": now.Add(appleSecretLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	text, err := p.signJWT(&signingKey{key, p.cfg.KeyID}, jose.ES256, claims)
	if err != nil {
		return "", err
	}
	s.text, s.by, s.until = text, key.PublicKey, now.Add(appleSecretLife/2)
	return text, nil
}

// appleKey returns our key for Apple, which takes ES256 alone.
func (p *Provider) appleKey(ctx context.Context) (*ecdsa.PrivateKey, error) {
	pair, err := p.env.KeyPair(ctx, p.cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("key pair %q: %w", p.cfg.Key, err)
	}
	key, ok := pair.Signer.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, &idp.UnfitKey{Name: p.cfg.Key, Problem: "is not an elliptic curve key on P-256, as Apple's .p8 files are"}
	}
	return key, nil
}

// appleName reads the form field user, which Apple sends at the first sign-in of a person and never again. Nothing
// proves it: only the name is taken, as text, and never the address next to it. What cannot be read is no name.
func appleName(raw string) object {
	if raw == "" || len(raw) > maxUser {
		return nil
	}
	user, err := providerhttp.ReadObject([]byte(raw))
	if err != nil {
		return nil
	}
	name, ok := user[claimName].(map[string]any)
	if !ok {
		return nil
	}
	out, whole := object{}, []string{}
	for _, part := range []struct{ from, to string }{{"firstName", "given_name"}, {"lastName", "family_name"}} {
		text, ok := name[part.from].(string)
		if text = strings.TrimSpace(text); !ok || text == "" || !idp.IsText(text, maxNamePart) {
			continue
		}
		out[part.to] = text
		whole = append(whole, text)
	}
	if len(whole) > 0 {
		out[claimName] = strings.Join(whole, " ")
	}
	return out
}

// isRelay reports whether an address is one that Apple has made for this person and this team. is_private_email is a
// boolean or its text.
func isRelay(claims object) bool {
	mail, _ := claims.Text(claimEmail)
	_, domain, _ := strings.Cut(strings.ToLower(mail), "@")
	return domain == relayDomain || claims.Truth(claimPrivate, true)
}
