package etcd_test

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"gearshift/internal/etcd"
)

func TestALoginThatWasRefusedWaits(t *testing.T) {
	for cause, want := range map[error]time.Duration{rpctypes.ErrAuthFailed: 10 * time.Second, rpctypes.ErrNoLeader: time.Second} {
		if got := etcd.Wait(etcd.Address{}.Away("log in", cause), time.Second); got != want {
			t.Errorf("%v after %v, want %v", got, cause, want)
		}
	}
}

func TestNamesOfStoresAreChecked(t *testing.T) {
	for _, good := range []string{"", "gearshift.db", "./a:b/etcd.db", "/data/x.db", `C:\data\x.db`, "etcd://h:2379/g", "etcds://h:1,i:2/g"} {
		if err := etcd.Check(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{"etcd:/h:2379/g", "etcd:h:2379/g", "etcds:/h:2379/g", "http://h:2379/g", "http://user:secret@h:2379/g", "etcd:/user:secret@h:2379/g", "etcd:user:secret@h:2379/g", "etcd://user:secret@secret@h:2379/g", "etcd://user:sec/ret@h:2379/g", "etcd3://h:2379/g", "etcd://h:2379", "etcd://h/g"} {
		err := etcd.Check(bad)
		if err == nil || !strings.Contains(err.Error(), "etcd://HOST:PORT") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q gives %v; want one line with the form, without a password", bad, err)
		}
	}
}
