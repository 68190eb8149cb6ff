package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

const (
	keysFresh = 15 * time.Minute // how long fetched keys are used without looking again
	keysRetry = time.Minute      // the shortest time between two fetches
	keysStale = 24 * time.Hour   // how long they are used while nothing can be fetched
)

// keySet is the keys of one issuer.
type keySet struct {
	issuer, uri        string // an empty uri is in the metadata of the issuer
	trusted, untrusted *http.Client

	mu      sync.Mutex // guards all below; it is not held while keys are fetched
	keys    []jose.JSONWebKey
	fetched time.Time // when it worked last; zero: the keys are those of the configuration
	tried   time.Time
	err     error         // of the last try
	busy    chan struct{} // closed when the current fetch is done; nil: no fetch runs
	fixed   bool
}

func newKeySet(r Rule, trusted, untrusted *http.Client) *keySet {
	k := &keySet{issuer: r.Issuer, uri: r.KeysURI, trusted: trusted, untrusted: untrusted}
	if r.Keys != nil {
		k.keys, k.fixed = r.Keys.Keys, true
	}
	return k
}

// verify returns the payload that one of the keys has signed. An *oauth.Error says that the keys are not known.
func (k *keySet) verify(ctx context.Context, parsed *jose.JSONWebSignature, now time.Time) ([]byte, error) {
	header := parsed.Signatures[0].Header
	keys, err := k.find(ctx, header.KeyID, now)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if (header.KeyID != "" && key.KeyID != "" && key.KeyID != header.KeyID) || (key.Algorithm != "" && key.Algorithm != header.Algorithm) {
			continue
		}
		if payload, err := parsed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, invalid("no key of its issuer has signed it")
}

// find returns the keys. They are fetched when they are old or the key that is asked for is not among them, and at most
// once a minute, so that strangers cannot make us call the issuer at will.
func (k *keySet) find(ctx context.Context, kid string, now time.Time) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fixed {
		return k.keys, nil
	}
	known := len(k.keys) > 0 && (kid == "" || slices.ContainsFunc(k.keys, func(key jose.JSONWebKey) bool { return key.KeyID == kid }))
	if !known || now.Sub(k.fetched) >= keysFresh {
		k.refresh(ctx, now, !known)
	}
	if len(k.keys) > 0 && now.Sub(k.fetched) < keysStale {
		return k.keys, nil
	}
	return nil, oauth.TemporarilyUnavailable(fmt.Errorf("keys of the trusted issuer %s: %w", k.issuer, k.err))
}

// refresh fetches the keys, once at a time. Only a caller whose key is not here yet waits for a fetch that runs. mu is
// held before and after.
func (k *keySet) refresh(ctx context.Context, now time.Time, needed bool) {
	if busy := k.busy; busy != nil {
		if !needed {
			return
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		k.mu.Lock()
		return
	}
	if !k.tried.IsZero() && now.Sub(k.tried) < keysRetry {
		return
	}
	busy := make(chan struct{})
	k.tried, k.busy = now, busy
	k.mu.Unlock()
	keys, err := k.fetch(context.WithoutCancel(ctx))
	k.mu.Lock()
	if k.err = err; err == nil {
		k.keys, k.fetched = keys, now
	}
	k.busy = nil
	close(busy)
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
		if json.Unmarshal(raw, &metadata) != nil || metadata.Issuer != k.issuer {
			return nil, errors.New("its metadata are those of another issuer")
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
