/* The sampler against vectors of torch.utils.data.DistributedSampler and torch.randperm, and the
 * deal of steps. */
#include <criterion/criterion.h>
#include <string.h>

#include "data/sampler.h"

static void expect_entries(const int64_t *got, const int64_t *want, int64_t count,
                           const char *what) {
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == want[i], "%s: entry %lld is %lld, not %lld", what, (long long)i,
                  (long long)got[i], (long long)want[i]);
}

Test(data_sampler, permutation_is_torchs) {
    static const struct {
        int64_t n;
        uint64_t seed;
        int64_t want[10];
    } rows[] = {
        {10, 0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
        {10, 1, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
        {10, 42, {2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
        {5, 2, {3, 4, 1, 0, 2}},
        {1, 7, {0}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int64_t got[10];
        sampler_permutation(rows[r].n, rows[r].seed, got);
        expect_entries(got, rows[r].want, rows[r].n, "permutation");
    }
}

/* torch.randperm(60000) with manual_seed(12345); of a seed only the low 32 bits count. */
Test(data_sampler, long_permutation_is_torchs) {
    static int64_t got[60000], other[60000];
    static const int64_t want[] = {30690, 49102, 47981, 51624, 17952, 19972};
    int64_t sum = 0;
    sampler_permutation(60000, 12345, got);
    expect_entries(got, want, 6, "permutation");
    for (int64_t i = 0; i < 60000; i++) sum += got[i] * (i + 1);
    cr_assert_eq(sum, 54071590818016);
    sampler_permutation(60000, ((uint64_t)1 << 32) + 12345, other);
    cr_assert_eq(memcmp(got, other, sizeof got), 0);
}

struct torch_row {
    int64_t n;
    int replicas, rank;
    int64_t epoch;
    bool shuffle, drop_last;
    int64_t count, want[4];
};

static const struct torch_row torch_rows[] = {
    {10, 4, 0, 0, true, false, 3, {4, 3, 6}},  {10, 4, 1, 0, true, false, 3, {1, 9, 2}},
    {10, 4, 2, 0, true, false, 3, {7, 0, 4}},  {10, 4, 3, 0, true, false, 3, {5, 8, 1}},
    {10, 4, 0, 1, true, false, 3, {5, 0, 7}},  {10, 4, 1, 1, true, false, 3, {6, 8, 4}},
    {10, 4, 2, 1, true, false, 3, {1, 9, 5}},  {10, 4, 3, 1, true, false, 3, {2, 3, 6}},
    {10, 4, 0, 0, true, true, 2, {4, 3}},      {10, 4, 1, 0, true, true, 2, {1, 9}},
    {10, 4, 2, 0, true, true, 2, {7, 0}},      {10, 4, 3, 0, true, true, 2, {5, 8}},
    {10, 4, 0, 0, false, false, 3, {0, 4, 8}}, {10, 4, 1, 0, false, false, 3, {1, 5, 9}},
    {10, 4, 2, 5, false, false, 3, {2, 6, 0}}, {10, 4, 3, 5, false, false, 3, {3, 7, 1}},
    {3, 8, 0, 0, false, false, 1, {0}},        {3, 8, 2, 0, false, false, 1, {2}},
    {3, 8, 3, 0, false, false, 1, {0}},        {3, 8, 7, 0, false, false, 1, {1}},
    {3, 8, 0, 0, false, true, 0, {0}},         {8, 4, 1, 0, false, true, 2, {1, 5}},
};

/* All that a micro-batch gets in an epoch; how many. */
static int64_t deal_epoch(const struct sampler *sampler, int64_t epoch, int g, int64_t *out) {
    int64_t order[104], count = 0;
    sampler_order(sampler, epoch, order);
    for (int64_t step = 0; step < sampler_steps(sampler); step++)
        count += sampler_deal(sampler, order, step, g, out + count);
    return count;
}

/* One sample a replica and step. */
Test(data_sampler, torch_vectors) {
    for (size_t r = 0; r < sizeof torch_rows / sizeof torch_rows[0]; r++) {
        const struct torch_row *row = &torch_rows[r];
        struct sampler sampler = {.samples = row->n,
                                  .batch = row->replicas,
                                  .replicas = row->replicas,
                                  .micro_batches = 1,
                                  .shuffle = row->shuffle,
                                  .drop_last = row->drop_last};
        int64_t got[4], count = deal_epoch(&sampler, row->epoch, row->rank, got);
        cr_assert_eq(count, row->count, "row %zu", r);
        expect_entries(got, row->want, count, "torch");
    }
}

Test(data_sampler, one_micro_batch_is_torchs_loader) {
    struct sampler sampler = {
        .samples = 103, .batch = 24, .replicas = 4, .micro_batches = 1, .seed = 9, .shuffle = true};
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int64_t all[104], got[26];
        sampler_permutation(103, 9 + (uint64_t)epoch, all);
        all[103] = all[0]; /* torch repeats from the begin */
        for (int g = 0; g < 4; g++) {
            cr_assert_eq(deal_epoch(&sampler, epoch, g, got), 26);
            for (int i = 0; i < 26; i++) cr_expect_eq(got[i], all[g + 4 * i]);
        }
    }
}

/* Over many shapes: a step's micro-batches hold its positions, each once, sizes within one of
 * another; those of an evaluation in blocks, the last of which are shorter. */
static void check_epoch(const struct sampler *sampler) {
    int64_t positions = sampler_positions(sampler), order[64], got[64], seen[64] = {0}, total = 0;
    int micro_batches = sampler->replicas * sampler->micro_batches;
    sampler_order(sampler, 1, order);
    for (int64_t step = 0; step < sampler_steps(sampler); step++) {
        int64_t least = 64, most = 0, sum = 0;
        for (int g = 0; g < micro_batches; g++) {
            int64_t count = sampler_deal(sampler, order, step, g, got);
            int64_t block = (sampler->batch + micro_batches - 1) / micro_batches;
            for (int64_t i = 0; i < count; i++) {
                int64_t at = sampler->exactly_once ? g * block + i : g + i * micro_batches;
                cr_assert_eq(got[i], order[step * sampler->batch + at]);
                seen[got[i]]++;
            }
            least = count < least ? count : least;
            most = count > most ? count : most;
            sum += count;
        }
        if (!sampler->exactly_once) cr_assert_leq(most - least, 1);
        cr_assert_leq(most, sampler_micro_most(sampler));
        cr_assert_eq(sum, sampler_step_samples(sampler, step));
        total += sum;
    }
    if (!sampler->drop_last) cr_assert_eq(total, positions);
    for (int64_t i = 0; i < sampler->samples; i++) {
        if (sampler->exactly_once) cr_assert_eq(seen[i], 1);
        if (!sampler->exactly_once && !sampler->drop_last) cr_assert_geq(seen[i], 1);
        if (sampler->drop_last) cr_assert_leq(seen[i], 1);
    }
}

Test(data_sampler, deal_covers_every_position_once) {
    int shapes = 0;
    for (int64_t n = 1; n <= 40; n += 3)
        for (int64_t batch = 1; batch <= 20; batch += 3)
            for (int replicas = 1; replicas <= 4; replicas++)
                for (int micro = 1; micro <= 4; micro += 3)
                    for (int kind = 0; kind < 3; kind++, shapes++)
                        check_epoch(&(struct sampler){.samples = n,
                                                      .batch = batch,
                                                      .replicas = replicas,
                                                      .micro_batches = micro,
                                                      .seed = 3,
                                                      .shuffle = true,
                                                      .drop_last = kind == 1,
                                                      .exactly_once = kind == 2});
    cr_assert_gt(shapes, 1000);
}

/* Where replicas change within an epoch: nobody sees a sample twice, or misses one. */
Test(data_sampler, unpadded_epochs_have_each_sample_once) {
    for (int replicas = 1; replicas <= 5; replicas++) {
        struct sampler sampler = {
            .samples = 53, .batch = 12, .replicas = replicas, .micro_batches = 2, .unpadded = true};
        int seen[53] = {0};
        int64_t order[64], ids[12];
        sampler_order(&sampler, 1, order);
        cr_expect_eq(sampler_positions(&sampler), 53);
        cr_expect_eq(sampler_steps(&sampler), 5);
        for (int64_t s = 0; s < 5; s++)
            for (int g = 0; g < replicas * 2; g++) {
                int64_t count = sampler_deal(&sampler, order, s, g, ids);
                for (int64_t i = 0; i < count; i++) seen[ids[i]]++;
            }
        for (int i = 0; i < 53; i++)
            cr_expect_eq(seen[i], 1, "%d replicas, sample %d", replicas, i);
        sampler.drop_last = true;
        cr_expect_eq(sampler_steps(&sampler), 4);
    }
}

Test(data_sampler, drop_last_leaves_the_short_step_out) {
    struct sampler sampler = {
        .samples = 30, .batch = 8, .replicas = 2, .micro_batches = 2, .drop_last = true};
    cr_assert_eq(sampler_steps(&sampler), 3);
    sampler.drop_last = false;
    cr_assert_eq(sampler_steps(&sampler), 4);
    cr_assert_eq(sampler_micro_samples(&sampler, 3, 0), 2);
    cr_assert_eq(sampler_micro_samples(&sampler, 3, 2), 1);
    sampler.samples = 2;
    cr_assert_eq(sampler_micro_samples(&sampler, 0, 1), 1);
    cr_assert_eq(sampler_micro_samples(&sampler, 0, 2), 0, "an empty micro-batch is possible");
}
