package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// reserveName is a file that keeps space for the store while others fill the disk.
const reserveName = "RESERVE"

// space watches the free space of the directory. Badger writes tables through memory maps, long after the commits in
// them, and one that meets a full disk ends the process (SIGBUS). So half of the watermark lies in a file. It is given
// up when the disk is nearly full, not before: the program that fills the disk would take it too.
type space struct {
	dir  string
	min  uint64 // the watermark
	free func(dir string) (uint64, error)
	log  *zap.Logger

	mu    sync.Mutex // guards the fields below
	held  bool       // the reserve has its blocks
	short bool       // the reserve was given up: writes go on when it is there again
	never bool       // there is no reserve: until it is begun, in memory, and where the file system has none
	last  uint64     // free bytes when last looked at
}

func (p *space) size() uint64 { return p.min / 2 }

// low is the free space at which the reserve is given up.
func (p *space) low() uint64 { return p.size() / 4 }

// look returns ErrFull when free space is below what writes need. It gives the reserve up or takes it back as the free
// space asks.
func (p *space) look() error {
	free, err := p.free(p.dir)
	if err != nil {
		return fmt.Errorf("%w: look for free space: %w", storage.ErrUnavailable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = free
	need := p.min
	switch {
	case p.held && free < p.low():
		p.held, p.short = false, true
		if err := os.Remove(filepath.Join(p.dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.log.Error("the reserve could not be given up", zap.Error(err))
		}
		p.log.Error("the disk is nearly full: the reserve was given up, and nothing is written until it can be made again",
			zap.Uint64("free_bytes", free), zap.Uint64("needed_bytes", p.min+p.size()))
	case !p.held && !p.never && free >= p.min+p.size():
		p.take()
	}
	if p.short {
		need += p.size()
	}
	if free < need {
		return fmt.Errorf("%w: %d MiB are free, %d MiB are needed", storage.ErrFull, free>>20, need>>20)
	}
	return nil
}

// begin finds the reserve of an earlier opening. From now on there can be one.
func (p *space) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	st, err := os.Stat(filepath.Join(p.dir, reserveName))
	p.never, p.held = false, err == nil && uint64(st.Size()) == p.size() //nolint:gosec // never negative
	if err == nil && !p.held {                                           // of another watermark
		_ = os.Remove(filepath.Join(p.dir, reserveName))
	}
}

// take makes the reserve. p.mu is held.
func (p *space) take() {
	f, err := os.OpenFile(filepath.Join(p.dir, reserveName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		p.log.Warn("the reserve could not be made", zap.Error(err))
		return
	}
	ok, err := reserve(f, int64(p.size())) //nolint:gosec // far below the limit
	if err = errors.Join(err, f.Close()); err != nil || !ok {
		_ = os.Remove(f.Name())
	}
	if err != nil {
		p.log.Warn("the reserve could not be made", zap.Error(err))
		return
	}
	p.held, p.short, p.never = ok, false, !ok
}

// bytes returns the free space when last looked at.
func (p *space) bytes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// pause returns the time during which the free space need not be looked at: no disk fills faster than 4 GiB in a
// second.
func (p *space) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		return time.Second
	}
	above := time.Duration((p.last - min(p.last, p.low())) >> 20) // MiB
	return min(max(above*time.Second/4096, 5*time.Millisecond), time.Second)
}

// watch monitors free space and file modes until ctx ends.
func (s *Store) watch(ctx context.Context) {
	modes := fileModes{dir: s.dir}
	for {
		modes.repair()
		timer := time.NewTimer(s.space.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			modes.repair()
			return
		case <-timer.C:
			_ = s.space.look() // an error is what the next write meets
		}
	}
}

// fileModes makes files of a directory readable by their owner alone. Badger creates them as the umask allows, which
// belongs to the whole process. The directory is closed to others meanwhile, but a copy of it may not be.
type fileModes struct {
	dir  string
	seen time.Time // when the directory had last changed
}

func (m *fileModes) repair() {
	st, err := os.Stat(m.dir)
	if err != nil || st.ModTime().Equal(m.seen) {
		return
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			_ = os.Chmod(filepath.Join(m.dir, e.Name()), 0o600)
		}
	}
	if time.Since(st.ModTime()) > time.Second { // a change within the same tick of the clock is not missed
		m.seen = st.ModTime()
	}
}
