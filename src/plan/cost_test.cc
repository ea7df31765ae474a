#include "plan/cost.h"

#include <gtest/gtest.h>

#include "plan/summary.h"

namespace headrace {
namespace {

Sequence Of(std::vector<uint32_t> lengths) {
  Sequence sequence;
  for (uint32_t length : lengths) {
    sequence.pieces.emplace_back();
    sequence.pieces.back().length = length;
    sequence.pieces.back().sample.length = 2 * length;
    sequence.pieces.back().sample.bytes = 100;
    sequence.pieces.back().sample.numbers = {3, 5};
  }
  return sequence;
}

TEST(Cost, OfAttentionIsThatOfEachDocumentByItself) {
  EXPECT_EQ(TokenCost(Of({10, 20})), 30);
  EXPECT_EQ(TokenCost(Of({0, 0})), 2);  // nothing is tokenised: samples
  EXPECT_EQ(AttentionCost(Of({10, 20}), 4, 2), 2 * (72.0 * 16 * 30 + 6 * 4 * 500));
  EXPECT_LT(AttentionCost(Of({4096, 4096}), 128, 1), AttentionCost(Of({8192}), 128, 1));
}

TEST(Cost, OfAnExpressionIsTheSumOverPieces) {
  CostSpec spec;
  spec.kind = CostSpec::kExpression;
  spec.expression = "length(tokens) * 2 + frames * height + bytes";
  EXPECT_EQ(CostColumns(spec), (std::vector<std::string>{"frames", "height"}));
  const auto cost = ExpressionCost(spec);
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ((*cost)(Of({10, 20})), 20 + 15 + 50 + 40 + 15 + 50);

  std::vector<Sequence> sequences = {Of({10}), {}};
  spec.expression = "1 / 0";
  SetCosts(spec, *ExpressionCost(spec), sequences);
  EXPECT_EQ(sequences[0].cost, 0);
  SetCosts(spec, [](const Sequence&) { return 7.0; }, sequences);
  EXPECT_EQ(sequences[0].cost, 7);
  EXPECT_EQ(sequences[1].cost, 0) << "an empty sequence costs nothing";
}

TEST(Summary, ShowsSharesPaddingAndSpread) {
  PlanSummary summary;
  StepPlan plan;
  plan.samples = {3, 1};
  plan.tokens = {750, 240};
  plan.padding = 10;
  plan.spread_before = 2;
  plan.spread_after = 1;
  plan.lanes = {{Of({10})}};
  summary.Add(plan);
  plan.spread_before = 1.5;
  summary.Add(plan);
  EXPECT_NEAR(summary.Share(0), 750.0 / 990, 1e-12);
  EXPECT_NEAR(summary.PaddingShare(), 0.01, 1e-12);
  EXPECT_EQ(summary.MeanBefore(), 1.75);
  EXPECT_EQ(summary.worst_before, 2);
  EXPECT_EQ(summary.BytesPerStep(), 50);
  const std::string bars = Bars(summary, {"web", "code"}, {{"web", 3}, {"code", 1}}, 20, /*ascii=*/true);
  EXPECT_EQ(bars,
            "web      ###############       75.8 %  weight  75.0 %  1.5k tokens, 6 samples\n"
            "code     #####                 24.2 %  weight  25.0 %  480 tokens, 2 samples\n"
            "padding                        1.00 %\n"
            "before   ####################  1.750  worst 2.000  largest lane over the mean, as they came\n"
            "after    ###########           1.000  worst 1.000  largest lane over the mean, balanced\n");
}

}  // namespace
}  // namespace headrace
