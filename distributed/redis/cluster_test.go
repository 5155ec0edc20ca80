package redis

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
	goredis "github.com/redis/go-redis/v9"
)

// The clusters of redis-server run on this machine, in separate directories.

type server struct {
	cmd     *exec.Cmd
	dir     string
	args    []string
	address string
	client  *goredis.Client
	id      string // in the cluster
}

type servers struct {
	all         []*server
	masters     int
	nodeTimeout time.Duration

	killed int          // masters
	moved  atomic.Int64 // slots
}

// freePorts returns n ports on which nothing listens.
func freePorts(t testing.TB, n int) (ports []string) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports
}

// startServer starts a server with additional settings.
func startServer(t testing.TB, dir string, settings ...string) *server {
	ports := freePorts(t, 2)
	s := &server{dir: dir, address: "127.0.0.1:" + ports[0]}
	s.args = append([]string{testenv.Program(t, "redis-server"), "--port", ports[0], "--bind",
		"127.0.0.1", "--dir", dir, "--save", "", "--loglevel", "warning", "--logfile",
		filepath.Join(dir, "log"),
		// redis-cli compares the keys that an interrupted move left on both nodes
		"--enable-debug-command", "local",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, settings...)
	for i, arg := range s.args {
		if arg == "--cluster-enabled" && s.args[i+1] == "yes" {
			s.args = append(s.args, "--cluster-port", ports[1])
			break
		}
	}
	s.client = goredis.NewClient(&goredis.Options{Addr: s.address, ReadTimeout: 10 * time.Second})
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *server) start(t testing.TB) {
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, s.cmd.Start())
	waitFor(t, "redis-server at "+s.address, func() bool {
		err := s.client.Ping(context.Background()).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	})
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_, _ = s.cmd.Process.Wait()
}

func waitFor(t testing.TB, what string, done func() bool) {
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// startCluster starts masters with the given number of replicas each.
func startCluster(
	t testing.TB, dir string, masters, replicas int, nodeTimeout time.Duration, settings ...string,
) *servers {
	c := &servers{masters: masters, nodeTimeout: nodeTimeout}
	settings = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout",
		strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		"--cluster-replica-validity-factor", "0", "--appendonly", "yes"}, settings...)
	for i := range masters * (1 + replicas) {
		folder := filepath.Join(dir, strconv.Itoa(i))
		must(t, os.MkdirAll(folder, 0o755))
		c.all = append(c.all, startServer(t, folder, settings...))
	}
	t.Cleanup(func() {
		for _, s := range c.all {
			if t.Failed() {
				t.Logf("%s sees:\n%s", s.address, s.client.ClusterNodes(context.Background()).Val())
			}
		}
	})
	create := []string{"create", "--cluster-yes", "--cluster-replicas", strconv.Itoa(replicas)}
	for _, s := range c.all {
		s.id = s.client.ClusterMyID(t.Context()).Val()
		create = append(create, s.address+"@"+s.args[len(s.args)-1])
	}
	must(t, cli(create...))
	c.healthy(t)
	return c
}

// cli runs redis-cli --cluster.
func cli(args ...string) error {
	cmd := exec.Command("redis-cli", append([]string{"--cluster"}, args...)...)
	cmd.Stdin = strings.NewReader("yes\n") // fix asks questions
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("redis-cli --cluster %q: %w: %s", args, err, out)
	}
	return nil
}

// healthy waits until every slot is served, all nodes agree on its owner, and every master has
// all its replicas.
func (c *servers) healthy(t testing.TB) {
	ctx := context.Background()
	replicas := len(c.all)/c.masters - 1
	fix := time.Now().Add(20 * time.Second)
	waitFor(t, "the cluster to be whole", func() bool {
		// on a busy machine, two nodes may both claim a slot until one of them gets a request for
		// it
		if time.Now().After(fix) {
			t.Log(cli("fix", c.all[0].address))
			fix = time.Now().Add(20 * time.Second)
		}
		masters := 0
		for _, s := range c.all {
			if fields(s.client.ClusterInfo(ctx).Val())["cluster_state"] != "ok" {
				return false
			}
			info := fields(s.client.Info(ctx, "replication").Val())
			if info["role"] == "master" && len(s.slots(ctx)) > 0 {
				masters++
				if info["connected_slaves"] != strconv.Itoa(replicas) || replicas > 0 &&
					!strings.Contains(info["slave0"], "online") {
					return false
				}
			} else if info["master_link_status"] != "up" {
				return false
			}
		}
		return masters == c.masters && cli("check", c.all[0].address) == nil
	})
}

// slots returns the ranges of slots that a node claims to serve, such as 1 or 5-7.
func (s *server) slots(ctx context.Context) []string {
	for line := range strings.Lines(s.client.ClusterNodes(ctx).Val()) {
		if f := strings.Fields(line); len(f) > 8 && strings.Contains(f[2], "myself") &&
			strings.Contains(f[2], "master") {
			return f[8:]
		}
	}
	return nil
}

func (c *servers) client(t testing.TB) *goredis.ClusterClient {
	var addresses []string
	for _, s := range c.all {
		addresses = append(addresses, s.address)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses,
		DialTimeout: time.Second, PoolSize: 32})
	t.Cleanup(func() { client.Close() })
	return client
}

var must = testenv.Must

// shared is a cluster for tests that do not damage it.
var shared struct {
	sync.Once
	dir     string
	cluster *servers
}

// silent drops the log of go-redis about failing connections, which these tests cause.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	goredis.SetLogger(silent{})
	code := m.Run()
	if shared.cluster != nil {
		for _, s := range shared.cluster.all {
			s.kill()
		}
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// never is a test whose cleanup TestMain does.
type never struct{ testing.TB }

func (never) Cleanup(func()) {}

func sharedCluster(t testing.TB) *servers {
	testenv.Program(t, "redis-server")
	shared.Do(func() {
		dir, err := os.MkdirTemp("", "neardup-redis")
		must(t, err)
		shared.dir, shared.cluster = dir, startCluster(never{t}, dir, 3, 1, 2*time.Second)
	})
	if shared.cluster == nil {
		t.Fatal("the shared cluster did not start")
	}
	return shared.cluster
}

// openShared opens an index with a name of its own on the shared cluster.
func openShared(t testing.TB, o Options) *Index {
	client := sharedCluster(t).client(t)
	if o.Name == "" {
		o.Name = fmt.Sprintf("%.30s-%d", strings.ReplaceAll(t.Name(), "/", "-"),
			time.Now().UnixNano())
	}
	x, err := Open(t.Context(), client, o)
	must(t, err)
	return x
}
