package badgerstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

const maxSeq = math.MaxUint64

// memTableSize is the size that Badger collects in memory, and in one log, before it makes a table of it. A larger one
// costs less to merge, and several times its size in memory.
const memTableSize = 12 << 20

// ttlMargin is the time after its expiry at which Badger may collect a record by the clock of the machine.
const ttlMargin = time.Hour

// settings returns Badger's options. Its defaults take 900 MB at a million records, these a quarter of that.
func settings(o Options, dir string) badger.Options {
	b := badger.DefaultOptions(dir).
		WithSyncWrites(!syncsWAL). // where it is off, wal does it
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumLevelZeroTables(5).
		WithNumLevelZeroTablesStall(15).
		WithNumCompactors(2).
		WithBlockCacheSize(0).
		WithIndexCacheSize(8 << 20).
		WithCompression(options.None). // so it needs no block cache; Snappy's builders take hundreds of MiB
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false). // there is one writer
		WithValueLogFileSize(64 << 20).
		WithMetricsEnabled(false).
		WithBypassLockGuard(locksForBadger). // lockDir has it
		WithLogger(logger{
			o.Log.Named("badger").WithOptions(zap.AddCallerSkip(1)).Sugar(),
			strings.NewReplacer(cmp.Or(dir, "/"), cmp.Or(o.Dir, "/")),
		})
	// examine verifies tables before Badger sees them: Badger's own check continues without a table that fails it.
	b.ChecksumVerificationMode = options.NoVerification
	if o.memory {
		b.Dir, b.ValueDir, b.InMemory, b.SyncWrites, b.IndexCacheSize = "", "", true, false, 0
	}
	return b
}

// openBadger turns a panic, Badger's answer to some damaged files, into an error.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, lost("badger panicked: %v", p)
		}
	}()
	db, err = badger.OpenManaged(o)
	if err != nil {
		return nil, lost("badger: %w", err)
	}
	return db, nil
}

// stage hands one write to a Badger transaction.
func (s *Store) stage(txn *badger.Txn, e *engine.Entry) error {
	key := make([]byte, 0, 1+len(e.Key))
	key = append(append(key, recordSpace), e.Key...)
	if e.Stored == nil {
		return txn.Delete(key)
	}
	b := badger.NewEntry(key, e.Stored)
	if s.opt.collects {
		b.ExpiresAt = timeToLive(e.Stored, ttlMargin)
	}
	return txn.SetEntry(b)
}

func encodeCounter(seq uint64) []byte {
	return engine.EncodeRecord(counterKey, binary.BigEndian.AppendUint64(nil, seq), time.Time{})
}

func decodeCounter(b []byte) (uint64, error) {
	if err := engine.CheckRecord(counterKey, b); err != nil || len(b) != engine.RecordHead+8 {
		return 0, lost("the commit counter is damaged")
	}
	return binary.BigEndian.Uint64(b[engine.RecordHead:]), nil
}

// lost is the error for a directory with missing data.
func lost(format string, args ...any) error {
	return fmt.Errorf("storage is damaged: "+format+": restore a backup into an empty directory "+
		"with `caddy gatehouse restore`", args...)
}

// logger passes Badger's messages to zap; those about compactions are for debugging only.
type logger struct {
	log  *zap.SugaredLogger
	name *strings.Replacer // of the directory, as the operator knows it
}

func (l logger) text(f string, a []any) string {
	return l.name.Replace(strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l logger) Errorf(f string, a ...any)   { l.log.Error(l.text(f, a)) }
func (l logger) Warningf(f string, a ...any) { l.log.Warn(l.text(f, a)) }
func (l logger) Infof(f string, a ...any)    { l.log.Debug(l.text(f, a)) }
func (l logger) Debugf(string, ...any)       {}
