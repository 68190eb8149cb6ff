package notify

import "context"

// Round posts the due events once.
func (w *Webhook) Round(ctx context.Context) (sent, failed int, err error) {
	return w.queue.Round(ctx, w.queue.AtOnce, w.send)
}

// Round tries the due items once.
func (q *sealedQueue[T]) Round(ctx context.Context) (sent, failed int, err error) {
	return q.queue.Round(ctx, q.queue.AtOnce, q.try)
}
