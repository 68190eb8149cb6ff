package secret

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-id/gatehouse/internal/secret/argon2id"
)

// HashCost says what a new password hash costs and how many are computed in parallel.
type HashCost struct {
	MemoryKiB   uint32 // for one Argon2id computation. Default: 19456 (19 MiB)
	Iterations  uint32 // passes over the memory. Default: 2
	Concurrency int    // computations in parallel. Default: max(1, cores-1)
}

// The costs of new hashes (OWASP Password Storage Cheat Sheet), and bounds for verified hashes: an imported hash must
// not be able to exhaust the machine.
const (
	defaultMemoryKiB  = 19 << 10
	defaultIterations = 2
	lanes             = 1 // one core per computation: the number of computations is bounded instead
	saltBytes         = 16
	hashBytes         = 32

	maxMemoryKiB  = 256 << 10
	maxIterations = 64
	maxWork       = 2 << 20 // memory in KiB times iterations
	maxLanes      = 16
	maxBcryptCost = 14
	bcryptBytes   = 72 // bcrypt reads this much of a password and would ignore the rest
)

// ErrHashFormat says that Verify cannot compute a stored hash within its bounds.
var ErrHashFormat = errors.New("not a hash that is supported (Argon2, bcrypt, scrypt, yescrypt, PBKDF2, SHA-crypt, salted SHA), or one that costs too much")

// Hasher computes slow password hashes. It runs a bounded number in parallel, lets a bounded number wait, and answers
// ErrBusy to the rest. Networks take turns (see AskedBy). It is safe for concurrent use.
type Hasher struct {
	cost     HashCost
	queue    *queue
	computed atomic.Int64
	random   io.Reader
	workers  *workers
	whole    *Hasher // the hasher that this is a Part of. nil: it has slots of its own
}

// NewHasher returns a hasher. Zero fields of c mean their defaults.
func NewHasher(c HashCost) *Hasher {
	if c.MemoryKiB == 0 {
		c.MemoryKiB = defaultMemoryKiB
	}
	if c.Iterations == 0 {
		c.Iterations = defaultIterations
	}
	if c.Concurrency <= 0 {
		c.Concurrency = max(1, runtime.GOMAXPROCS(0)-1)
	}
	c.MemoryKiB, c.Iterations = min(c.MemoryKiB, maxMemoryKiB), min(c.Iterations, maxIterations)
	c.Iterations = max(1, min(c.Iterations, maxWork/c.MemoryKiB))
	return &Hasher{
		cost: c, queue: newQueue(c.Concurrency, lineFactor*c.Concurrency, queueFactor*c.Concurrency),
		workers: newWorkers(c.MemoryKiB), random: rand.Reader,
	}
}

// The bounds of a Part.
const (
	// partFactor is the number of computations of a Part that wait in the queue of the whole for each one that runs:
	// enough to keep it busy, and few enough that other computations hardly wait.
	partFactor = 2
	partQueue  = 16 // waiting computations for each of those
)

// Part returns a hasher for work that must not keep others waiting. It computes in the slots of h but takes only a few
// places in its queue; the rest wait in a queue of their own or get ErrBusy.
func (h *Hasher) Part() *Hasher {
	slots := partFactor * h.queue.size
	return &Hasher{cost: h.cost, queue: newQueue(slots, partQueue*slots, partQueue*slots), workers: h.workers, random: h.random, whole: h}
}

// Hash returns the Argon2id hash of a password in PHC form, or ErrBusy.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(h.random, salt); err != nil {
		return "", err
	}
	sum, err := h.argon2id(ctx, password, argonParams{h.cost.MemoryKiB, h.cost.Iterations, lanes, salt, hashBytes})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2id.Version, h.cost.MemoryKiB, h.cost.Iterations, lanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

// Verify reports whether the password has this hash (see CheckImported). stale says that the hash matches but was made
// in another way or at another cost than new ones. The error is ErrBusy, ErrHashFormat or the context's; ok means
// nothing then.
func (h *Hasher) Verify(ctx context.Context, phc, password string) (ok, stale bool, err error) {
	phc = unwrap(phc)
	if isBcrypt(phc) {
		ok, err = h.bcrypt(ctx, phc, password)
		return ok, ok, err
	}
	if check, err := parseForeign(phc); err == nil {
		ok, err = h.verifyForeign(ctx, check, password)
		return ok, ok, err
	}
	p, want, err := parseArgon2id(phc)
	if err != nil {
		return false, false, err
	}
	got, err := h.argon2id(ctx, password, p)
	if err != nil {
		return false, false, err
	}
	ok = subtle.ConstantTimeCompare(got, want) == 1
	stale = p.memory != h.cost.MemoryKiB || p.iterations != h.cost.Iterations || p.lanes != lanes || len(want) != hashBytes
	return ok, ok && stale, nil
}

// Waste costs as much as Verify. It is called for unknown users, so response time does not reveal which users exist.
func (h *Hasher) Waste(ctx context.Context, password string) error {
	_, err := h.argon2id(ctx, password, argonParams{h.cost.MemoryKiB, h.cost.Iterations, lanes, make([]byte, saltBytes), hashBytes})
	return err
}

// Computed returns how many slow hashes have been computed, for metrics and for tests.
func (h *Hasher) Computed() int64 { return h.computed.Load() }

// Waiting returns how many computations wait for their turn now, for metrics.
func (h *Hasher) Waiting() int64 { return int64(h.queue.Waiting()) }

// CheckImported returns an error unless Verify would accept the hash: the kinds of CheckPHC, or one of other systems.
func CheckImported(phc string) error {
	phc = unwrap(phc)
	if _, err := parseForeign(phc); err == nil {
		return nil
	}
	return CheckPHC(phc)
}

// CheckPHC returns an error unless the hash is slow by design, Argon2id or bcrypt in PHC form, within the bounds of
// Verify. It lets a configuration be refused before the first sign-in.
func CheckPHC(phc string) error {
	if isBcrypt(phc) {
		if cost, err := bcrypt.Cost([]byte(phc)); err != nil || cost > maxBcryptCost {
			return ErrHashFormat
		}
		return nil
	}
	_, _, err := parseArgon2id(phc)
	return err
}

func (h *Hasher) argon2id(ctx context.Context, password string, p argonParams) ([]byte, error) {
	var sum []byte
	err := h.compute(ctx, func(m *argon2id.Memory) {
		cost := argon2id.Cost{MemoryKiB: p.memory, Iterations: p.iterations, Lanes: p.lanes}
		sum = m.Key([]byte(password), p.salt, cost, p.length, func() bool { return ctx.Err() != nil })
	})
	if err == nil && sum == nil {
		err = ctx.Err()
	}
	return sum, err
}

// bcrypt refuses passwords beyond its 72 bytes: two passwords that share those bytes are still different.
func (h *Hasher) bcrypt(ctx context.Context, phc, password string) (ok bool, err error) {
	if CheckPHC(phc) != nil {
		return false, ErrHashFormat
	}
	short := password[:min(len(password), bcryptBytes)]
	err = h.compute(ctx, func(*argon2id.Memory) { ok = bcrypt.CompareHashAndPassword([]byte(phc), []byte(short)) == nil })
	return ok && len(password) <= bcryptBytes && !strings.Contains(password, "\x00"), err
}

// compute runs a slow computation once there is a slot for it.
func (h *Hasher) compute(ctx context.Context, run func(*argon2id.Memory)) error {
	release, err := h.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	h.workers.do(run)
	return nil
}

// acquire waits for a free slot.
func (h *Hasher) acquire(ctx context.Context) (release func(), err error) {
	own, err := h.queue.acquire(ctx)
	if err != nil {
		return nil, err
	}
	leave := own
	if h.whole != nil {
		inner, err := h.whole.acquire(ctx)
		if err != nil {
			own()
			return nil, err
		}
		leave = func() { inner(); own() }
	}
	h.computed.Add(1)
	return leave, nil
}

type argonParams struct {
	memory, iterations uint32
	lanes              uint8
	salt               []byte
	length             uint32
}

// parseArgon2id reads $argon2id$v=19$m=19456,t=2,p=1$salt$hash strictly and within the bounds.
func parseArgon2id(phc string) (argonParams, []byte, error) {
	var p argonParams
	parts := strings.Split(phc, "$")
	if len(phc) > 512 || len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2id.Version) {
		return p, nil, ErrHashFormat
	}
	n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.iterations, &p.lanes)
	if err != nil || n != 3 || parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", p.memory, p.iterations, p.lanes) {
		return p, nil, ErrHashFormat
	}
	if p.lanes < 1 || p.lanes > maxLanes || p.iterations < 1 || p.iterations > maxIterations ||
		p.memory < 8*uint32(p.lanes) || p.memory > maxMemoryKiB || uint64(p.memory)*uint64(p.iterations) > maxWork {
		return p, nil, ErrHashFormat
	}
	var sum []byte
	if p.salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4]); err != nil || len(p.salt) < 8 || len(p.salt) > 64 {
		return p, nil, ErrHashFormat
	}
	if sum, err = base64.RawStdEncoding.Strict().DecodeString(parts[5]); err != nil || len(sum) < 16 || len(sum) > 64 {
		return p, nil, ErrHashFormat
	}
	p.length = uint32(len(sum)) //nolint:gosec // at most 64
	return p, sum, nil
}

func isBcrypt(phc string) bool {
	return strings.HasPrefix(phc, "$2a$") || strings.HasPrefix(phc, "$2b$") || strings.HasPrefix(phc, "$2y$")
}
