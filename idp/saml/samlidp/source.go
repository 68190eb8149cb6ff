package samlidp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	maxMetadata = 1 << 20 // bytes
	maxAddress  = 2048    // bytes
	// remoteAge and fileAge are the ages at which metadata are read again.
	remoteAge = time.Hour
	fileAge   = time.Minute
	// pause is the time before the next attempt after a failure.
	pause = time.Minute
	// timeout is how long an attempt takes at most, patience how long a sign-in waits while older metadata hold.
	timeout  = 5 * time.Second
	patience = time.Second
)

// Source keeps the metadata of one service provider: XML, a file, or an https address. It reads them again when they
// have become old. If that fails, or if they name another entity, the last ones hold until they expire.
type Source struct {
	from   string
	client *http.Client
	now    func() time.Time
	log    *zap.Logger

	mu      sync.Mutex // guards the fields below
	current *Metadata
	read    time.Time     // when current was read
	tried   time.Time     // the end of the last attempt, if it failed
	err     error         // of the last attempt
	running chan struct{} // closed at the end of the attempt under way. nil: no attempt is under way
}

// IsXML tells whether metadata stand in the configuration itself.
func IsXML(from string) bool { return strings.HasPrefix(strings.TrimSpace(from), "<") }

func isRemote(from string) bool {
	return strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://")
}

// CheckSource tells what is wrong with where metadata are, without reading a file or an address. XML is read.
func CheckSource(from string, isLoopback func(host string) bool, now time.Time) error {
	switch {
	case strings.TrimSpace(from) == "":
		return errors.New("metadata is missing: the path of a file with the metadata of the service provider, or its https address")
	case IsXML(from):
		_, err := parseMetadata([]byte(from), now)
		return err
	case !isRemote(from):
		if strings.Contains(from, "://") {
			return fmt.Errorf("metadata %q: only https addresses and files can be read", from)
		}
		return nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.User != nil || len(from) > maxAddress {
		return errors.New("metadata is not a good address: it has no host, or a user name in it")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return fmt.Errorf("metadata %q: use https, since whoever can change it gets people's sign-ins", u.Redacted())
	}
	return nil
}

// NewSource returns a source. XML that cannot be read is an error, and so is a file that is not there. client makes the
// requests; files says that files may be read.
func NewSource(from string, files bool, client *http.Client, now func() time.Time, log *zap.Logger) (*Source, error) {
	s := &Source{from: from, client: client, now: now, log: log}
	switch {
	case IsXML(from):
		m, err := parseMetadata([]byte(from), now())
		if err != nil {
			return nil, err
		}
		s.current, s.read = m, now()
	case !isRemote(from) && !files:
		return nil, errors.New("want the metadata itself or its https address, not a file")
	case !isRemote(from):
		if err := regular(from); err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
		m, err := s.fetch(context.Background())
		if err != nil {
			return nil, err
		}
		s.current, s.read = m, now()
	}
	return s, nil
}

// Known returns the metadata that were read last, even if they are old. nil: nothing was read.
func (s *Source) Known() *Metadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Get returns metadata that hold now. Without any it waits for them until ctx ends.
func (s *Source) Get(ctx context.Context) (*Metadata, error) {
	now := s.now()
	s.mu.Lock()
	usable := s.current.holds(now)
	if !usable || now.Sub(s.read) >= s.age() {
		s.begin(now)
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		wait := timeout
		if usable {
			wait = patience
		}
		await(ctx, running, wait)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current.holds(now):
		return s.current, nil
	case s.err != nil:
		return nil, fmt.Errorf("the metadata of the service provider: %w", s.err)
	}
	return nil, errors.New("the metadata of the service provider have expired, or have not arrived")
}

// Renew reads metadata again because a message does not fit them. It returns them if they have changed since, otherwise
// nil.
func (s *Source) Renew(ctx context.Context, old *Metadata) *Metadata {
	now := s.now()
	s.mu.Lock()
	if s.current == old && now.Sub(s.read) >= pause {
		s.begin(now)
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

// await waits for the end of a read, at most for some time.
func await(ctx context.Context, running <-chan struct{}, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-running:
	case <-ctx.Done():
	}
}

func (m *Metadata) holds(now time.Time) bool {
	return m != nil && (m.ValidUntil.IsZero() || now.Before(m.ValidUntil))
}

func (s *Source) age() time.Duration {
	if isRemote(s.from) {
		return remoteAge
	}
	return fileAge
}

// begin starts an attempt unless one is under way or one has failed a moment ago. The caller holds the lock.
func (s *Source) begin(now time.Time) {
	if IsXML(s.from) || s.running != nil || !s.tried.IsZero() && now.Sub(s.tried) < pause && !now.Before(s.tried) {
		return
	}
	done := make(chan struct{})
	s.running = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		m, err := s.fetch(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.current != nil && s.current.EntityID != m.EntityID {
			// Their author could otherwise pass for another service provider, without its groups and level.
			err = fmt.Errorf("they name the entity %q, before %q: load the configuration again if that is right", m.EntityID, s.current.EntityID)
		}
		if s.running, s.err = nil, err; err != nil {
			s.tried = s.now()
			s.log.Warn("metadata of the service provider cannot be read", zap.Error(err))
			return
		}
		s.current, s.read, s.tried = m, s.now(), time.Time{}
	}()
}

func (s *Source) fetch(ctx context.Context) (*Metadata, error) {
	raw, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	return parseMetadata(raw, s.now())
}

func (s *Source) load(ctx context.Context) ([]byte, error) {
	if !isRemote(s.from) {
		if err := regular(s.from); err != nil {
			return nil, err
		}
		f, err := os.Open(s.from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return bounded(f)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/samlmetadata+xml, application/xml, text/xml")
	res, err := s.client.Do(req)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) { // without the address, which can hold a key
			return nil, fmt.Errorf("no answer: %w", failed.Err)
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", res.Status)
	}
	return bounded(res.Body)
}

// regular refuses files that can block a reader, such as a pipe.
func regular(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	return err
}

func bounded(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err == nil && len(raw) > maxMetadata {
		err = fmt.Errorf("it is longer than %d bytes", maxMetadata)
	}
	return raw, err
}
