package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// formatLanes is the form of records from which on each node numbers its events apart.
	formatLanes = 2
	// maxLanes bounds the chains of events. Further nodes share the first.
	maxLanes = 32
)

// Lane is the number of the chain of events to which this node adds. It is 0, for all nodes, while one of them knows no
// other.
func (n *Node) Lane() int { return max(0, int(n.lane.Load())-1) }

// HasLanes reports whether all nodes know of several chains of events.
func (n *Node) HasLanes() bool { return n.written.Load() >= formatLanes }

// takeLane returns a lane for this node, counted from 1: the one that it had, or the first that no other node has. Two
// nodes can be in one lane until the next beat, and do each other no harm: numbers are taken in transactions.
func (n *Node) takeLane(tx storage.Tx, has int, at time.Time) (int, error) {
	used := map[int]bool{}
	for e, err := range nodes.Scan(tx, storage.Range{}) {
		if err != nil {
			return 0, err
		}
		if e.Key != n.id && seenLately(e.Value.Seen, at) {
			used[e.Value.Lane] = true
		}
	}
	if has == 0 || used[has] {
		for has = 1; used[has] && has <= maxLanes; {
			has++
		}
		if has > maxLanes {
			return 1, nil
		}
	}
	return has, lanes.Put(tx, laneKey(has), laneRecord{Node: n.id, Host: n.Host, Since: at}, time.Time{})
}

func laneKey(lane int) string { return fmt.Sprintf("%02d", lane) }

// Writers returns the host of the node that adds to each lane, or did last. A storage of one process has none.
func Writers(ctx context.Context, s storage.Store) (hosts map[int]string, err error) {
	err = s.View(ctx, func(tx storage.Tx) error {
		hosts = map[int]string{}
		for e, err := range lanes.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			lane := 0
			if _, err := fmt.Sscanf(e.Key, "%d", &lane); err == nil {
				hosts[lane-1] = e.Value.Host
			}
		}
		return nil
	})
	return hosts, err
}
