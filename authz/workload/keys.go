package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keyset"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

// keySet is the keys of one issuer.
type keySet struct {
	issuer, uri        string // an empty uri is in the metadata of the issuer
	trusted, untrusted *http.Client
	fixed              *jwa.KeySet // of the configuration; nil: they are fetched
	fetched            keyset.Set
}

func newKeySet(r Rule, trusted, untrusted *http.Client) *keySet {
	return &keySet{issuer: r.Issuer, uri: r.KeysURI, trusted: trusted, untrusted: untrusted, fixed: r.Keys}
}

// verify returns the payload that one of the keys has signed. An *oauth.Error says that the keys are not known.
func (k *keySet) verify(ctx context.Context, parsed *jose.JSONWebSignature, now time.Time) ([]byte, error) {
	keys, err := k.find(ctx, parsed.Signatures[0].Header.KeyID, now)
	if err != nil {
		return nil, err
	}
	if payload, ok := client.Verify(parsed, keys); ok {
		return payload, nil
	}
	return nil, invalid("no key of its issuer has signed it")
}

// find returns the keys, fetched again when none of them has this id: see keyset.Set.
func (k *keySet) find(ctx context.Context, kid string, now time.Time) ([]jose.JSONWebKey, error) {
	if k.fixed != nil {
		return k.fixed.Keys, nil
	}
	keys, err := k.fetched.Find(ctx, now, keyset.Named(kid), k.fetch)
	if keys == nil {
		return nil, oauth.TemporarilyUnavailable(fmt.Errorf("keys of the trusted issuer %s: %w", k.issuer, err))
	}
	return keys, nil
}

// fetch reads the keys of the issuer, by its metadata if nothing else was said. (OpenID Connect Discovery 4)
func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	uri, by := k.uri, k.trusted
	if uri == "" {
		raw, err := get(ctx, k.trusted, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return nil, err
		}
		var metadata struct {
			Issuer  string `json:"issuer"`
			JWKSURI string `json:"jwks_uri"`
		}
		if webpage.Is(raw) {
			return nil, errors.New("its metadata is an HTML page")
		}
		if json.Unmarshal(raw, &metadata) != nil || metadata.Issuer != k.issuer {
			return nil, errors.New("its metadata is that of another issuer")
		}
		at, err := readAddress(metadata.JWKSURI)
		if err != nil {
			return nil, fmt.Errorf("jwks_uri in its metadata: %w", err)
		}
		// The operator has named the issuer's host, and no other one.
		if own, err := url.Parse(k.issuer); err != nil || own.Host != at.Host || own.Scheme != at.Scheme {
			by = k.untrusted
		}
		uri = metadata.JWKSURI
	}
	raw, err := get(ctx, by, uri)
	if err != nil {
		return nil, err
	}
	return client.ParseKeys(raw)
}

// get reads an address. The error does not name it.
func get(ctx context.Context, c *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("its address cannot be read")
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	res, err := c.Do(req)
	if err != nil {
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("it cannot be asked: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", res.StatusCode)
	}
	return outbound.Body(res)
}
