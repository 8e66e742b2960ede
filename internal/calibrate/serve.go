package calibrate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"gearshift/internal/app"
	"gearshift/internal/onnxruntime"
)

// serveWith starts a router with a policy on a port of its own, and waits until it
// is ready. What it says goes into serve.log.
func (c *calibration) serveWith(ctx context.Context, file, policy string) (url string, stop func(), err error) {
	// Ports that are free now: others may take them before the router does, which
	// then says so.
	addr, err := unusedAddr()
	if err != nil {
		return "", nil, err
	}
	log, err := os.OpenFile(c.at("serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- app.Serve(ctx, app.Options{
			Scenario: file, Store: c.at(storeName), Engine: onnxruntime.Native, Policy: policy, Addr: addr, Admin: "off", Version: c.program.Version, Remedy: c.program.Remedy,
		}, log)
	}()
	stop = func() {
		cancel()
		<-ended
		_ = log.Close()
	}
	if err := ready(ctx, "http://"+addr, ended); err != nil {
		cancel()
		_ = log.Close()
		return "", nil, fmt.Errorf("cannot serve %s: %w", policy, err)
	}
	return "http://" + addr, stop, nil
}

func unusedAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the router answers that it is ready, or has ended.
func ready(ctx context.Context, url string, ended <-chan error) error {
	const patience = 5 * time.Minute // models take their time to load
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/models", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			if err == nil {
				err = ctx.Err()
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
