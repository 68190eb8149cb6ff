package saml

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

const (
	fileRefresh = time.Minute // for files, which are cheap to read
	// patience is the time that a sign-in waits for newer metadata while the old one is still valid.
	patience = time.Second
	// firstPause is the time before the next attempt after a failure. It doubles with each failure, up to lastPause, so
	// sign-ins do not wait for a provider that is down.
	firstPause = 2 * time.Second
	lastPause  = time.Minute
	// eager is the time after an attempt before metadata is fetched again because a message does not match it. Anyone can
	// send such a message, and the metadata of a federation has up to 256 MiB.
	eager           = time.Minute
	federationEager = 15 * time.Minute
)

// Eager returns how long after an attempt metadata can be fetched again because of a message.
func Eager(federation bool) time.Duration {
	if federation {
		return federationEager
	}
	return eager
}

// stale marks the error of a message that can be valid by newer metadata of its sender.
type stale struct{ error }

func (s stale) Unwrap() error { return s.error }

// Stale marks an error as one that newer metadata of the sender can settle.
func Stale(err error) error { return stale{err} }

// IsStale reports whether newer metadata of the sender can settle an error.
func IsStale(err error) bool { return errors.As(err, new(stale)) }

// source keeps the metadata of a provider. It fetches metadata on demand when the last copy has become old. If that
// fails, the last valid copy is used until it expires.
type source struct {
	cfg    Config
	client *http.Client
	now    func() time.Time
	log    *zap.Logger

	ctx    context.Context // canceled by close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	current  *idpMetadata
	version  Version       // of current
	fetched  time.Time     // time of current
	tried    time.Time     // end of the last attempt
	failures int           // since the last success
	err      error         // of the last attempt
	running  chan struct{} // closed at the end of the current attempt; nil: none
}

// newSource starts to read metadata. Files that are not there, or that hold something else, are read again later: only
// the provider's own people wait for that.
func newSource(cfg Config, env idp.Env) (*source, error) {
	s := &source{cfg: cfg, client: env.Client, now: env.Now, log: env.Log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if isXML(cfg.Metadata) {
		var err error
		if s.current, err = s.fetch(s.ctx); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		s.fetched = s.now()
		s.warn(s.current)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(s.now())
	return s, nil
}

func (s *source) close() { s.cancel(); s.work.Wait() }

// interval is the age at which metadata is fetched again.
func (s *source) interval(m *idpMetadata) time.Duration {
	switch {
	case s.cfg.Refresh != 0:
		return s.cfg.Refresh
	case !isRemote(s.cfg.Metadata):
		return fileRefresh
	case m.CacheDuration > 0: // SAML metadata 2.3.2
		return min(max(m.CacheDuration, minRefresh), maxRefresh)
	}
	return defaultRefresh
}

// good reports whether metadata is valid now. (SAML metadata 2.3.2, validUntil)
func good(m *idpMetadata, now time.Time) bool {
	return m != nil && (m.ValidUntil.IsZero() || now.Before(m.ValidUntil))
}

// get returns valid metadata. Without any it waits for a fetch until ctx ends. If the metadata is only old, it waits
// for a moment.
func (s *source) get(ctx context.Context) (*idpMetadata, error) {
	now := s.now()
	s.mu.Lock()
	have := s.current
	usable := good(have, now)
	if !usable || now.Sub(s.fetched) >= s.interval(have) {
		s.begin(now)
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		if usable {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		select {
		case <-running:
		case <-ctx.Done():
			if !usable {
				return nil, fmt.Errorf("the provider's metadata has not arrived: %w", ctx.Err())
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if good(s.current, now) {
		return s.current, nil
	}
	if s.err == nil {
		return nil, errors.New("the provider's metadata is no longer valid")
	}
	return nil, fmt.Errorf("the provider's metadata: %w", s.err)
}

// try verifies a message by metadata, and once more by newer metadata if that can settle the error: the provider may
// sign with a key that our copy does not have. It returns the metadata of the last attempt.
func (s *source) try(ctx context.Context, m *idpMetadata, verify func(*idpMetadata) error) (*idpMetadata, error) {
	err := verify(m)
	if IsStale(err) {
		if newer := s.changed(ctx, m); newer != nil {
			return newer, verify(newer)
		}
	}
	return m, err
}

// changed fetches metadata again because a message does not match it. It returns the new metadata if it has changed,
// otherwise nil.
func (s *source) changed(ctx context.Context, old *idpMetadata) *idpMetadata {
	now := s.now()
	s.mu.Lock()
	if s.current == old && now.Sub(s.tried) >= Eager(s.cfg.Entity != "") {
		s.begin(now)
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == old || !good(s.current, now) || s.current.EntityID != old.EntityID {
		return nil
	}
	return s.current
}

// begin starts an attempt unless one is running or the last one has failed recently. The caller holds the lock.
func (s *source) begin(now time.Time) {
	pause := min(firstPause<<min(max(s.failures-1, 0), 8), lastPause)
	if isXML(s.cfg.Metadata) || s.running != nil || s.failures > 0 && now.Sub(s.tried) < pause && !now.Before(s.tried) || s.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	s.running = done
	current, version := s.current, Version{}
	if s.cfg.Entity != "" && good(current, now) { // the metadata of a federation is worth asking whether it is newer
		version = s.version
	}
	s.work.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(s.ctx, FetchTime(s.cfg.Entity != ""))
		defer cancel()
		next := version
		m, err := s.fetchAnd(ctx, version, func(res *http.Response) { next = VersionOf(res) })
		if errors.Is(err, ErrUnchanged) {
			m, next, err = current, version, nil
		}
		s.ended(m, next, err)
	})
}

// ended stores the result of an attempt. After a failure the current metadata stays.
func (s *source) ended(m *idpMetadata, version Version, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.tried, s.err = nil, s.now(), err
	if err != nil {
		s.failures++
		if s.ctx.Err() == nil {
			text := "metadata of the provider cannot be refreshed"
			if s.current == nil {
				text = "metadata of the provider cannot be read: sign-in with it is unavailable until then"
			}
			s.log.Warn(text, zap.Int("failures", s.failures), zap.Error(err))
		}
		return
	}
	if s.failures > 0 {
		s.log.Info("metadata of the provider is available again", zap.Int("failures", s.failures))
	}
	if s.current != nil && s.current.EntityID != m.EntityID {
		s.log.Warn("metadata of the provider names another entity than before", zap.String("before", s.current.EntityID),
			zap.String("now", m.EntityID))
	}
	s.failures, s.current, s.version, s.fetched = 0, m, version, s.tried
	s.warn(m)
}

// warn logs that no one can sign in with metadata that has been read.
func (s *source) warn(m *idpMetadata) {
	if err := m.usable(s.now()); err != nil {
		s.log.Warn("no one can sign in with the metadata of the provider", zap.Error(err))
	}
}

// fetch reads the metadata from its source.
func (s *source) fetch(ctx context.Context) (*idpMetadata, error) {
	return s.fetchAnd(ctx, Version{}, func(*http.Response) {})
}

// fetchAnd is fetch that tells of the answer. have is the version of our copy, for ErrUnchanged.
func (s *source) fetchAnd(ctx context.Context, have Version, answered func(*http.Response)) (*idpMetadata, error) {
	trust, err := s.cfg.trust()
	if err != nil {
		return nil, err
	}
	r, err := Open(ctx, s.cfg.Metadata, s.cfg.Entity != "", s.client, have, answered)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	m, err := readMetadata(r, s.cfg.Entity, trust, s.now(), decode)
	if err == nil && s.cfg.AcceptExpired {
		m.Signing = ageless(m.Signing)
	}
	return m, err
}

// withoutAddress removes the address from the error of a request. Errors are logged, and some addresses contain a key
// in their query.
func withoutAddress(err error) error {
	if failed := new(url.Error); errors.As(err, &failed) {
		return fmt.Errorf("no answer: %w", failed.Err)
	}
	return err
}

func bounded(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, safexml.MaxMetadata+1))
	if err == nil && len(raw) > safexml.MaxMetadata {
		err = fmt.Errorf("it is longer than %d bytes", safexml.MaxMetadata)
	}
	return raw, err
}
