package samlidp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	maxAddress = 2048 // bytes
	// remoteAge and fileAge are the ages at which metadata are read again.
	remoteAge = time.Hour
	fileAge   = time.Minute
	// pause is the time before the next attempt after a failure.
	pause = time.Minute
	// timeout is the maximum duration of an attempt, patience the time that a sign-in waits while older metadata are
	// valid.
	timeout  = 5 * time.Second
	patience = time.Second
)

// Source keeps the metadata of one service provider: XML, a file, or an https address. It reads them again when they
// have become old. If that fails, or if they name another entity, the last ones are used until they expire.
type Source struct {
	from    string
	options Options
	client  *http.Client
	now     func() time.Time
	log     *zap.Logger

	mu      sync.Mutex // guards the fields below
	current *Metadata
	version saml.Version  // of current
	read    time.Time     // when current was read
	tried   time.Time     // the end of the last attempt for a message, if it failed
	looked  time.Time     // the last time that Refresh has begun an attempt
	err     error         // of the last attempt
	running chan struct{} // closed at the end of the attempt under way. nil: no attempt is under way
}

// IsXML reports whether metadata are written in the configuration itself.
func IsXML(from string) bool { return saml.IsXML(from) }

func isRemote(from string) bool { return saml.IsRemote(from) }

// CheckSource returns an error if metadata cannot be used, without reading a file or an address. XML is read, but can
// have expired.
func CheckSource(from string, o Options, isLoopback func(host string) bool) error {
	switch {
	case strings.TrimSpace(from) == "":
		return errors.New("metadata is missing: the path of a file with the metadata of the service provider, or its https address")
	case IsXML(from):
		_, err := parseMetadata(strings.NewReader(from), o, time.Time{})
		return err
	case !isRemote(from):
		if strings.Contains(from, "://") {
			return fmt.Errorf("metadata %q: only https addresses and files can be read", from)
		}
		return nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.User != nil || len(from) > maxAddress {
		return errors.New("metadata is not a valid address: it has no host, or a user name in it")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return fmt.Errorf("metadata %q: use https, since anyone who can change it gets people's sign-ins", u.Redacted())
	}
	return nil
}

// CheckCurrent returns an error if metadata in XML has expired.
func CheckCurrent(from string, now time.Time) error {
	m, err := parseMetadata(strings.NewReader(from), Options{}, now)
	if err == nil && !m.holds(now) {
		err = m.expired()
	}
	return err
}

// Options are the operator's options for metadata.
type Options struct {
	// Files allows files to be read.
	Files bool
	// Entity is the entity ID of the service provider, where the metadata is that of a federation. Empty: the only one.
	Entity string
	// Certificate, PEM or a PEM file, must have signed the metadata. Empty: unsigned metadata is accepted.
	Certificate string
	// AcceptExpired trusts signatures by keys outside the validity of their certificates too.
	AcceptExpired bool
}

// NewSource returns a source. XML that cannot be read is an error. A file that cannot be read is tried again later, and
// affects only its service provider. client makes the requests.
func NewSource(from string, o Options, client *http.Client, now func() time.Time, log *zap.Logger) (*Source, error) {
	s := &Source{from: from, options: o, client: client, now: now, log: log}
	switch {
	case IsXML(from):
		m, _, err := s.fetch(context.Background(), saml.Version{})
		if err != nil {
			return nil, err
		}
		s.current, s.read = m, now()
	case !isRemote(from) && !o.Files:
		return nil, errors.New("want the metadata itself or its https address, not a file")
	case !isRemote(from):
		m, version, err := s.fetch(context.Background(), saml.Version{})
		s.ended(m, version, err, true)
	}
	return s, nil
}

// Refresh starts reading metadata that have never been read, have expired or are old, and does not wait for them. If
// that fails, the next message of the service provider tries again nevertheless.
func (s *Source) Refresh() {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDue(now) && now.Sub(s.looked) >= pause {
		s.looked = now
		s.begin(now, false)
	}
}

// isDue reports whether there is no valid metadata, or whether it is old. The caller holds the lock.
func (s *Source) isDue(now time.Time) bool {
	return !s.current.holds(now) || now.Sub(s.read) >= s.age()
}

// Warnings returns what keeps people from signing in, now or within 30 days, and which last certificate ends by then.
// Until ctx ends it waits for the first attempt to read the metadata, if one is under way.
func (s *Source) Warnings(ctx context.Context) []idp.Warning {
	s.mu.Lock()
	running := s.running
	if s.current != nil || s.err != nil {
		running = nil
	}
	s.mu.Unlock()
	if running != nil {
		await(ctx, running, timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.current
	if m == nil {
		if s.err == nil { // the first attempt is under way
			return nil
		}
		return []idp.Warning{idp.NoOne(fmt.Errorf("its metadata cannot be read: %w", s.err))}
	}
	return (&saml.Validity{
		Now: s.now(), Until: m.ValidUntil, Certificates: m.Published, Encryption: m.Encryption, AnyAge: s.options.AcceptExpired,
		Renewed: isRemote(s.from) && s.err == nil, Failure: s.err,
	}).Warnings()
}

// Known returns the metadata that were read last, even if they are old. nil: nothing was read.
func (s *Source) Known() *Metadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Get returns metadata that are valid now. If there are none, it waits for an attempt to read them or until ctx ends.
func (s *Source) Get(ctx context.Context) (*Metadata, error) {
	now := s.now()
	for range 2 { // the first wait can be for an attempt of Refresh, which began before the service provider was up
		s.mu.Lock()
		if s.isDue(now) {
			s.begin(now, true)
		}
		usable, running := s.current.holds(now), s.running
		s.mu.Unlock()
		if running == nil {
			break
		}
		wait := timeout
		if usable {
			wait = patience
		}
		if !await(ctx, running, wait) || usable {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current.holds(now):
		return s.current, nil
	case s.current != nil:
		return nil, s.current.expired()
	case s.err != nil:
		return nil, fmt.Errorf("the metadata of the service provider: %w", s.err)
	}
	return nil, errors.New("the metadata of the service provider has not arrived")
}

// Renew reads metadata again if newer ones can settle the error of a message: its key or its address is not in old. It
// returns them if they have changed since, otherwise nil.
func (s *Source) Renew(ctx context.Context, old *Metadata, err error) *Metadata {
	if !saml.IsStale(err) {
		return nil
	}
	now := s.now()
	eager := saml.Eager(s.options.Entity != "")
	s.mu.Lock()
	if s.current == old && now.Sub(s.read) >= eager && now.Sub(s.tried) >= eager {
		s.begin(now, true)
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		await(ctx, running, timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == old || !s.current.holds(now) || s.current.EntityID != old.EntityID {
		return nil
	}
	return s.current
}

// await waits for the end of a read, at most for some time, and reports whether it has ended.
func await(ctx context.Context, running <-chan struct{}, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-running:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *Metadata) holds(now time.Time) bool {
	return m != nil && (m.ValidUntil.IsZero() || now.Before(m.ValidUntil))
}

func (m *Metadata) expired() error {
	return fmt.Errorf("the metadata of the service provider was valid until %s and has expired", m.ValidUntil.Format(time.RFC3339))
}

func (s *Source) age() time.Duration {
	if isRemote(s.from) {
		return remoteAge
	}
	return fileAge
}

// begin starts an attempt unless one is in progress or one has failed a moment ago. asked: a message waits for it, so
// its failure delays the next attempt. The caller holds the lock.
func (s *Source) begin(now time.Time, asked bool) {
	if IsXML(s.from) || s.running != nil || !s.tried.IsZero() && now.Sub(s.tried) < pause && !now.Before(s.tried) {
		return
	}
	done := make(chan struct{})
	s.running = done
	current, version := s.current, saml.Version{}
	if s.options.Entity != "" && current.holds(now) { // the metadata of a federation is worth asking whether it is newer
		version = s.version
	}
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), saml.FetchTime(s.options.Entity != ""))
		defer cancel()
		m, next, err := s.fetch(ctx, version)
		if errors.Is(err, saml.ErrUnchanged) {
			m, next, err = current, version, nil
		}
		s.ended(m, next, err, asked)
	}()
}

// ended stores the result of an attempt.
func (s *Source) ended(m *Metadata, version saml.Version, err error, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch {
	case err != nil:
	case s.current != nil && s.current.EntityID != m.EntityID:
		// Otherwise the author of the metadata could pass for another service provider, without its groups and level.
		err = fmt.Errorf("they name the entity %q, not %q as before: reload the configuration if that is right", m.EntityID, s.current.EntityID)
	case !m.holds(now):
		if !s.current.holds(now) { // kept nevertheless, so refused requests have a service provider
			s.current = m
		}
		err = m.expired()
	}
	if s.running, s.err = nil, err; err != nil {
		if asked {
			s.tried = now
		}
		s.log.Warn("metadata of the service provider cannot be used", zap.Error(err))
		return
	}
	s.current, s.version, s.read, s.tried = m, version, now, time.Time{}
}

// fetch reads the metadata, and says which version it is. have is the version of our copy, for saml.ErrUnchanged.
func (s *Source) fetch(ctx context.Context, have saml.Version) (m *Metadata, version saml.Version, err error) {
	r, err := saml.Open(ctx, s.from, s.options.Entity != "", s.client, have, func(res *http.Response) { version = saml.VersionOf(res) })
	if err != nil {
		return nil, version, err
	}
	defer r.Close() //nolint:errcheck // only read
	m, err = parseMetadata(r, s.options, s.now())
	return m, version, err
}
