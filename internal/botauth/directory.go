package botauth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

// directoryPath lists the keys of the robots of a domain. (draft-meunier-http-message-signatures-directory)
const directoryPath = "/.well-known/http-message-signatures-directory"

const (
	shortest    = 5 * time.Minute // for which a directory is not fetched again
	longest     = 24 * time.Hour
	failureKept = 30 * time.Second
	maxDomains  = 1000
	maxKeys     = 32
	perMinute   = 10 // fetches that one address can cause
	atOnce      = 16 // fetches at a time
	weakRSA     = 2048
)

var (
	errBusy = errors.New("too many key directories of robots are fetched")
	errKey  = errors.New("the directory of the robot has no valid key of that id")
)

// directories are the keys of robots, by their domain.
type directories struct {
	client atomic.Pointer[http.Client]
	now    func() time.Time

	mu      sync.Mutex // guards all below; it is not held while a directory is fetched
	known   map[string]*directory
	running map[string]chan struct{} // closed when the fetch is done
	minute  time.Time
	callers map[string]int // fetches of this minute
}

type directory struct {
	keys  map[string]robotKey // by thumbprint
	err   error
	until time.Time
}

type robotKey struct {
	public       any
	begins, ends time.Time // zero: not limited
}

// key returns a key of a domain by its thumbprint. (RFC 7638)
func (d *directories) key(ctx context.Context, domain, id, from string) (any, error) {
	dir, err := d.find(ctx, domain, from)
	if err != nil {
		return nil, err
	}
	if dir.err != nil {
		return nil, dir.err
	}
	k, ok := dir.keys[id]
	if now := d.now(); !ok || k.begins.After(now) || !k.ends.IsZero() && !k.ends.After(now) {
		return nil, errKey
	}
	return k.public, nil
}

func (d *directories) find(ctx context.Context, domain, from string) (*directory, error) {
	for {
		d.mu.Lock()
		now := d.now()
		if have := d.known[domain]; have != nil && have.until.After(now) {
			d.mu.Unlock()
			return have, nil
		}
		if busy := d.running[domain]; busy != nil {
			d.mu.Unlock()
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if minute := now.Truncate(time.Minute); !minute.Equal(d.minute) {
			d.minute = minute
			clear(d.callers)
		}
		if d.callers[from] >= perMinute || len(d.running) >= atOnce {
			d.mu.Unlock()
			return nil, errBusy
		}
		d.callers[from]++
		done := make(chan struct{})
		d.running[domain] = done
		d.mu.Unlock()

		dir := d.fetch(context.WithoutCancel(ctx), domain)
		d.mu.Lock()
		delete(d.running, domain)
		if d.known[domain] == nil && len(d.known) >= maxDomains {
			clear(d.known)
		}
		d.known[domain] = dir
		d.mu.Unlock()
		close(done)
		return dir, nil
	}
}

// fetch reads a directory. Redirects are not followed: what is at another address says nothing of this one.
func (d *directories) fetch(ctx context.Context, domain string) *directory {
	failed := func(err error) *directory {
		return &directory{err: fmt.Errorf("the key directory of the robot: %w", err), until: d.now().Add(failureKept)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+domain+directoryPath, http.NoBody)
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Accept", "application/http-message-signatures-directory+json")
	req.Header.Set("User-Agent", "Gatehouse")
	client := d.client.Load()
	if client == nil {
		return failed(errors.New("it is not fetched here"))
	}
	res, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return failed(fmt.Errorf("its host answers %d in place of 200", res.StatusCode))
	}
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); !strings.HasSuffix(strings.TrimSpace(kind), "json") {
		return failed(errors.New("its Content-Type is not application/http-message-signatures-directory+json"))
	}
	body, err := outbound.Body(res)
	if err != nil {
		return failed(err)
	}
	keys, err := readKeys(body)
	if err != nil {
		return failed(err)
	}
	return &directory{keys: keys, until: d.now().Add(min(max(maxAge(res.Header), shortest), longest))}
}

// maxAge returns the time for which an answer is fresh. 0: it does not say.
func maxAge(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), "max-age="); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return time.Duration(min(n, int(longest/time.Second))) * time.Second
			}
		}
	}
	return 0
}

// readKeys reads the keys of a directory, and passes over those that are of no use here.
func readKeys(body []byte) (map[string]robotKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, errors.New("it is no set of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	out := map[string]robotKey{}
	for _, raw := range set.Keys {
		var jwk jose.JSONWebKey
		var life struct {
			From  int64 `json:"nbf"`
			Until int64 `json:"exp"`
		}
		if jwk.UnmarshalJSON(raw) != nil || !jwk.Valid() || !jwk.IsPublic() || json.Unmarshal(raw, &life) != nil {
			continue
		}
		if key, ok := jwk.Key.(*rsa.PublicKey); ok && key.N.BitLen() < weakRSA {
			continue
		}
		sum, err := jwk.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		k := robotKey{public: jwk.Key}
		if life.From > 0 {
			k.begins = time.Unix(life.From, 0)
		}
		if life.Until > 0 {
			k.ends = time.Unix(life.Until, 0)
		}
		out[base64.RawURLEncoding.EncodeToString(sum)] = k
	}
	return out, nil
}
