package saml

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	fileRefresh = time.Minute // of a file: reading it costs nothing
	// patience is how long a sign-in waits for newer metadata while the older is still good.
	patience = time.Second
	// firstPause doubles with each failure, up to lastPause: nobody waits for a provider that has just not answered.
	firstPause = 2 * time.Second
	lastPause  = time.Minute
	// eager is how old metadata must be for an answer that does not fit it to fetch it again.
	eager = time.Minute
)

// source keeps the metadata of a provider. It is fetched when somebody needs it and it has grown old; the last good one is used until its own end.
type source struct {
	cfg    Config
	trust  *x509.Certificate
	client *http.Client
	now    func() time.Time
	log    *zap.Logger

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	current  *idpMetadata
	fetched  time.Time     // when current was
	tried    time.Time     // when the last try ended
	failures int           // since the last success
	err      error         // of the last try
	running  chan struct{} // closed when the try under way ends; nil: none is
}

// newSource begins to fetch what is remote, and reads what is not.
func newSource(cfg Config, env idp.Env) (*source, error) {
	s := &source{cfg: cfg, client: env.Client, now: env.Now, log: env.Log}
	var err error
	if s.trust, err = cfg.trust(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	switch {
	case isXML(cfg.Metadata):
		if s.current, err = parseMetadata([]byte(cfg.Metadata), s.trust, s.now()); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		s.fetched = s.now()
	case !isRemote(cfg.Metadata):
		// That it is not there is a mistake of now; what stands in it may become better later.
		if err := checkFile(cfg.Metadata); err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(s.now())
	return s, nil
}

func (s *source) close() { s.cancel(); s.work.Wait() }

// interval is how long metadata is young.
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

// good tells whether metadata may be used. (SAML metadata 2.3.2, validUntil)
func good(m *idpMetadata, now time.Time) bool {
	return m != nil && (m.ValidUntil.IsZero() || now.Before(m.ValidUntil))
}

// get returns metadata that is good now. It waits for a fetch until ctx ends where there is none, and for a moment where what there is has grown old.
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
				return nil, fmt.Errorf("the provider's metadata has not come: %w", ctx.Err())
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

// changed fetches metadata again because an answer does not fit, and returns it where it is another; nil otherwise.
func (s *source) changed(ctx context.Context, old *idpMetadata) *idpMetadata {
	now := s.now()
	s.mu.Lock()
	if s.current == old && now.Sub(s.fetched) >= eager {
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

// begin starts a try unless one is under way or the last has failed a short while ago. The lock is held.
func (s *source) begin(now time.Time) {
	pause := min(firstPause<<min(max(s.failures-1, 0), 8), lastPause)
	if isXML(s.cfg.Metadata) || s.running != nil || s.failures > 0 && now.Sub(s.tried) < pause && !now.Before(s.tried) || s.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	s.running = done
	s.work.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		defer cancel()
		m, err := s.fetch(ctx)
		s.ended(m, err)
	})
}

// ended takes the outcome of a try. Garbage and silence leave what there is.
func (s *source) ended(m *idpMetadata, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.tried, s.err = nil, s.now(), err
	if err != nil {
		s.failures++
		if s.ctx.Err() == nil {
			s.log.Warn("metadata of the provider cannot be refreshed", zap.Int("failures", s.failures), zap.Error(err))
		}
		return
	}
	if s.failures > 0 {
		s.log.Info("metadata of the provider is there again", zap.Int("failures", s.failures))
	}
	if s.current != nil && s.current.EntityID != m.EntityID {
		s.log.Warn("metadata of the provider names another entity than before", zap.String("before", s.current.EntityID), zap.String("now", m.EntityID))
	}
	s.failures, s.current, s.fetched = 0, m, s.tried
}

// fetch reads the metadata where it is.
func (s *source) fetch(ctx context.Context) (*idpMetadata, error) {
	raw := []byte(s.cfg.Metadata)
	var err error
	if isRemote(s.cfg.Metadata) {
		raw, err = s.download(ctx)
	} else if !isXML(s.cfg.Metadata) {
		raw, err = readFile(s.cfg.Metadata)
	}
	if err != nil {
		return nil, err
	}
	return parseMetadata(raw, s.trust, s.now())
}

// checkFile refuses what could keep a reader waiting, such as a pipe.
func checkFile(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	return err
}

func readFile(name string) ([]byte, error) {
	if err := checkFile(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f)
}

func (s *source) download(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Metadata, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/samlmetadata+xml, application/xml, text/xml")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", res.Status)
	}
	return bounded(res.Body)
}

// withoutAddress takes the address out of an error of a request: some hold a key in their query, and errors are logged.
func withoutAddress(err error) error {
	if failed := new(url.Error); errors.As(err, &failed) {
		return fmt.Errorf("no answer: %w", failed.Err)
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
