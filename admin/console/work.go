package console

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
)

const (
	jobEvery    = 2 * time.Second  // how soon work on many persons begins
	blocksEvery = 10 * time.Second // how soon after its time a block ends
	groupsEvery = time.Minute      // how soon a change of a group goes on that a crash has interrupted
	// backupsEvery is the maximum delay of a scheduled backup.
	backupsEvery = 20 * time.Second
)

// Run does the jobs, sends alerts, makes the backups of the schedule, finishes interrupted changes of groups and ends
// blocks whose time is over, until ctx ends. One node at a time does it, and has the files of those backups.
func (c *Console) Run(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	jobs.Go(func() {
		periodic.Every(ctx, jobEvery, c.Log, "work on many persons not done; retrying", func() error { return c.Manage.WorkOff(ctx) })
	})
	jobs.Go(func() {
		periodic.Every(ctx, jobEvery, c.Log, "events not checked; retrying",
			func() error { return c.Manage.WorkOffChecks(ctx, c.Upkeep.Backups.Host) })
	})
	jobs.Go(func() { c.Alerts.Run(ctx) })
	jobs.Go(func() {
		periodic.Every(ctx, groupsEvery, c.Log, "changes of groups not finished; retrying", func() error {
			n, err := c.Identity.Person.FinishGroups(ctx)
			if n > 0 {
				c.Log.Info("interrupted changes of groups are finished", zap.Int("groups", n))
			}
			return err
		})
	})
	jobs.Go(func() {
		periodic.Every(ctx, backupsEvery, c.Log, "scheduled backups not made; retrying", func() error { return c.Upkeep.Backups.Due(ctx) })
	})
	periodic.Every(ctx, blocksEvery, c.Log, "blocks not ended; retrying", func() error {
		n, err := c.Identity.Person.EndBlocks(ctx)
		if n > 0 {
			c.Log.Info("blocks have ended", zap.Int("persons", n))
		}
		return err
	})
}
