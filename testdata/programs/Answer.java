import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** A pool's threads share a map, compiled just in time and garbage collected meanwhile: prints what any order gives. */
public class Answer {
    private static final int TASKS = 64;
    private static final int VALUES = 1000; // of each task

    public static void main(String[] arguments) throws Exception {
        ConcurrentHashMap<Long, Long> kinds = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        Future<?>[] tasks = new Future<?>[TASKS];
        for (int task = 0; task < TASKS; task++) {
            long first = (long) task * VALUES;
            tasks[task] = pool.submit(() -> {
                for (long value = first; value < first + VALUES; value++) {
                    kinds.merge(value % 97, value * value, Long::sum);
                }
            });
        }
        for (Future<?> task : tasks) {
            task.get();
        }
        pool.shutdown();
        long digest = 0;
        for (long sum : new TreeMap<>(kinds).values()) {
            digest = digest * 31 + sum;
        }
        System.out.println(digest);
    }
}
