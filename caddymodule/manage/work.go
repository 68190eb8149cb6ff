package manage

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/again"
)

// blocksEvery is how soon after its time a block ends.
const blocksEvery = 10 * time.Second

// Run ends blocks whose time is over, until ctx ends. One node at a time does it.
func (s *Service) Run(ctx context.Context) {
	again.Every(ctx, blocksEvery, s.Log, "blocks not ended; retrying", func() error {
		n, err := s.Identity.Person.EndBlocks(ctx)
		if n > 0 {
			s.Log.Info("blocks have ended", zap.Int("persons", n))
		}
		return err
	})
}
